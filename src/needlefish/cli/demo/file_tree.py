"""A table's directory as a tree, with long folders cut short."""

from pathlib import Path

from rich.text import Text
from rich.tree import Tree

from needlefish.cli.human import bytes_text, counted

_SHOWN_FILES = 2


def file_tree(uri: str) -> tuple[Tree, int]:
    """The tree, and how many files there are in it."""
    root = Path(uri)
    tree = Tree(Text(f"{root.name}/", style="bold"), guide_style="dim")
    return tree, _grow(tree, root)


def _grow(tree: Tree, folder: Path) -> int:
    children = sorted(folder.iterdir())
    files = [child for child in children if child.is_file()]
    count = len(files)
    for child in children:
        if child.is_dir():
            count += _grow(tree.add(Text(f"{child.name}/", style="cyan")), child)
    for file in files[:_SHOWN_FILES]:
        tree.add(Text.assemble(file.name, (f"  {bytes_text(file.stat().st_size)}", "dim")))
    if hidden := files[_SHOWN_FILES:]:
        tree.add(Text(f"… {counted(len(hidden), 'more file')}, {bytes_text(sum(file.stat().st_size for file in hidden))}", style="dim"))
    return count
