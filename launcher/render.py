"""Template and values to text: the only user of Jinja."""

from __future__ import annotations

from .resources import folder


def render(template: str, **values: object) -> str:
    """The text of `sbatch_templates/<template>` with `values`; an unknown name in it is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder("sbatch_templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
