"""Write other tools' lines anew, in mnrun's words: a batch script, and one command. Pure."""
