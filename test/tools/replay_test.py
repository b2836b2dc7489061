"""tools/replay --compare on recorded folders."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

REPLAY = pathlib.Path(__file__).resolve().parents[2] / "tools/replay"


def kernel(name, graph, code, device="CPU"):
    return f"# kernel {name} for {device}\n{graph}\n# code\n{code}\n"


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def compare(self, base, change, *options):
        paths = []
        for name, texts in (("base", base), ("change", change)):
            path = pathlib.Path(self.folder.name) / name
            path.mkdir()
            for text in texts:  # any name will do that equal texts share
                (path / f"{sum(text.encode()) * 131 + len(text)}.txt").write_text(text)
            paths.append(path)
        done = subprocess.run(
            [sys.executable, REPLAY, "--compare", *paths, *options], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_same(self):
        texts = [kernel("e_4", "%0 = Sink", "a"), kernel("e_8", "%0 = Sink %1", "b")]
        self.assertEqual(self.compare(texts, texts), (0, "2 kernels, 0 changed\n", ""))

    def test_code_of_one_graph(self):
        code, out, _ = self.compare([kernel("e_4", "g", "one\ntwo")], [kernel("e_4", "g", "one\nthree")])
        self.assertEqual(code, 1)
        self.assertTrue(out.startswith("1 kernels, 1 changed\n\nchanged: e_4 on CPU, same graph\n--- base\n+++ change\n"))
        self.assertIn("\n-two\n+three\n", out)

    def test_graph_decides_before_name(self):
        base = [kernel("e_4", "g", "one"), kernel("e_4", "h", "two")]
        change = [kernel("e_4", "h", "TWO"), kernel("e_5", "g", "ONE")]
        _, out, _ = self.compare(base, change)
        self.assertIn("2 kernels, 2 changed\n", out)
        self.assertIn("-one\n+ONE\n", out)
        self.assertIn("-two\n+TWO\n", out)

    def test_new_and_gone(self):
        _, out, _ = self.compare([kernel("e_4", "g", "one")], [kernel("r_9", "h", "two", "CPU:C")])
        self.assertIn("1 kernels, 2 changed\n", out)
        self.assertIn("gone: e_4 on CPU\n", out)
        self.assertIn("new: r_9 on CPU:C\n", out)

    def test_limits(self):
        base = [kernel(f"e_{i}", f"g{i}", "\n".join(f"{i} {k}" for k in range(90))) for i in range(12)]
        change = [text.replace(" ", "  ").replace("#  kernel  ", "# kernel ").replace("  for  ", " for ") for text in base]
        code, out, _ = self.compare(base, change)
        self.assertEqual(code, 1)
        self.assertIn("… and 2 more kernels; --full shows them", out)
        self.assertIn("more lines; --full", out)

    def test_full(self):
        base, change = ([kernel("e_4", "g", "\n".join(f"{word} {k}" for k in range(90)))] for word in ("old", "new"))
        _, out, _ = self.compare(base, change, "--full")
        self.assertIn("+new 89\n", out)

    def test_no_kernels(self):
        code, out, err = self.compare(["nonsense"], [])
        self.assertEqual((code, out), (2, ""))
        self.assertIn("is no recorded kernel", err)


if __name__ == "__main__":
    unittest.main()
