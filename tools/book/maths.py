"""Formulas as MathML, which browsers draw without scripts or fonts from elsewhere."""

import html
import re

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', flags=re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', flags=re.DOTALL)


def with_mathml(page: str) -> str:
    """A page of HTML with the formulas that the extension arithmatex has marked."""
    page = DISPLAY.sub(lambda m: f'<div class="formula">{mathml(m[1], "block")}</div>', page)
    return INLINE.sub(lambda m: mathml(m[1], "inline"), page)


def mathml(formula: str, display: str) -> str:
    return convert(html.unescape(formula).strip(), display=display)
