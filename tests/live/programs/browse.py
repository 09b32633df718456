"""A browser without a screen: `browse.py URL WHAT`. It runs a cell of JupyterLab, or waits for TensorBoard's chart."""

# mypy: ignore-errors

import sys
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

SECONDS = 150


def found(driver, selector):
    return driver.find_elements(By.CSS_SELECTOR, selector)


def clicked(driver, selector):
    for element in found(driver, selector)[:1]:
        driver.execute_script("arguments[0].click()", element)
        return True
    return False


def jupyter(driver):
    """Open a notebook, run a cell, and return what it prints."""
    wait = WebDriverWait(driver, SECONDS)
    wait.until(lambda _: found(driver, ".jp-LauncherCard"))
    time.sleep(2)  # the splash lies above it
    wait.until(lambda _: clicked(driver, '.jp-LauncherCard[data-category="Notebook"]'))
    time.sleep(3)
    while clicked(driver, ".jp-Dialog button.jp-mod-accept"):  # it may ask which kernel
        time.sleep(1)
    wait.until(lambda _: found(driver, ".jp-Notebook .jp-CodeCell .cm-content"))[0].click()
    cell = ActionChains(driver).send_keys("print(6 * 7, 'by a cell')")
    cell.key_down(Keys.SHIFT).send_keys(Keys.ENTER).perform()
    return wait.until(lambda _: [one.text for one in found(driver, ".jp-OutputArea-output") if one.text])[0]


def tensorboard(driver):
    """Return the words of a chart that has a line."""
    line = "scalar-card svg.line, scalar-card canvas, scalar-card path"
    WebDriverWait(driver, SECONDS).until(lambda _: found(driver, line))
    return found(driver, "scalar-card")[0].text


options = webdriver.ChromeOptions()
options.binary_location = "/usr/bin/chromium"
for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,900"):
    options.add_argument(word)
chrome = webdriver.Chrome(options, Service("/usr/bin/chromedriver"))
chrome.get(sys.argv[1])
try:
    print({"jupyter": jupyter, "tensorboard": tensorboard}[sys.argv[2]](chrome))
finally:
    chrome.quit()
