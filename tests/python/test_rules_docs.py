"""docs/rules.md: its table is what the program lists, and its examples are rules that apply and are reversed."""

import pathlib
import re

import torch

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "rules.md"
RULES = pathlib.Path(__file__).parents[2] / "rules"


def test_the_table_is_what_ships(refx):
    shipped = re.findall(r"^rule (\S+)", "\n".join(path.read_text() for path in sorted(RULES.iterdir())), re.M)
    rows = [f"| `{t['name']}` | {t['summary']} |" for t in refx("list", "--json").json() if t["name"] in shipped]
    table = DOCS.read_text().split("<!-- rules -->\n| name | what it does |\n|---|---|\n")[1].split("<!-- /rules -->")[0]
    assert table.splitlines() == rows
    assert len(rows) == len(shipped)


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.b, self.w = torch.nn.Parameter(torch.randn(6)), torch.nn.Parameter(torch.randn(6))

    def forward(self, x):
        return (x / 4 + self.b) * self.w


def test_the_tutorial(refx, tmp_path):
    text = DOCS.read_text().split("   rule scale-and-shift")[1].split("```")[0]
    rules, model, fast, back = (tmp_path / name for name in ("my.refx", "model.pt2", "fast.pt2", "back.pt2"))
    rules.write_text("rule scale-and-shift" + text)
    torch.export.save(torch.export.export(Scaled(), (torch.randn(3, 6),)), model)
    refx("inspect", model, "--rules", rules)
    steps = refx("apply", model, "--rules", rules, "scale-and-shift", "-o", fast, "--json").json()["steps"]
    assert [step["transformation"] for step in steps] == ["scale-and-shift"]
    refx("verify", fast)
    refx("reverse", fast, "scale-and-shift", "-o", back)
    assert back.read_bytes() == model.read_bytes()
