#!/usr/bin/env python3
"""Uses the program as a hostile or careless user would, with random cases of thirteen kinds: make campaign-uses.

    tests/fuzz/uses.py build/asan/wisp [--seconds 600] [--seed 1] [--only KIND,...] [--found FOLDER]

Each case is a rule that holds for all inputs of its kind, such as "a file of another kind is not replaced". A case that
breaks its rule, a sanitizer's report, a signal and a run without an end are findings: they are printed with the seed of the
case, which --seed repeats, and kept in FOLDER. The exit code is 0 where nothing was found.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import use_inputs as inputs  # noqa: E402
from use_server import HostileServer  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
STORIES = ROOT / "models/wisp-stories.gguf"
LIMIT = 120  # seconds of processor time of one run, which may wait for others ten times as long
CODES = {0, 1, 2, 3, 4}
KINDS = {}


class Finding(Exception):
    pass


def require(holds, *what):
    if not holds:
        raise Finding(" ".join(map(str, what)))


def kind(case):
    KINDS[case.__name__.replace("_", "-")] = case
    return case


def limit_time():
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))


class World:
    """The program, a model that embeds, a folder for a case, and its random numbers."""

    def __init__(self, program, model):
        self.program, self.model = Path(program).resolve(), model
        self.random, self.folder, self.commands, self.codes = random.Random(), Path(), [], Counter()

    def begin(self, seed, folder, codes):
        self.random, self.folder, self.commands, self.codes = random.Random(seed), folder, [], codes

    def run(self, *arguments, stdin=b"", **environment):
        arguments = [str(argument) for argument in arguments]
        self.commands.append((arguments, stdin))
        try:
            done = subprocess.run([self.program, *arguments], input=stdin, capture_output=True, timeout=10 * LIMIT, cwd=self.folder,
                                  preexec_fn=limit_time,
                                  env={**os.environ, "WISP_CACHE": str(self.folder / "cache"), **environment})
        except subprocess.TimeoutExpired:
            raise Finding("it runs for ever") from None
        self.codes[done.returncode] += 1
        errors = done.stderr.decode(errors="replace")
        require("Sanitizer" not in errors and "runtime error" not in errors, errors[-3000:])
        require(done.returncode in CODES, f"exit code {done.returncode}", errors[-500:])
        require(done.returncode == 0 or errors.strip(), "a failure without a word")
        return done

    def put(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def generate(self, *arguments, **more):
        return self.run("generate", "-m", STORIES, *arguments, **more)

    def temporary_files(self):
        return [str(path) for path in self.folder.rglob("*") if ".tmp" in path.name or path.name.endswith(".lock")]


# ---- files -------------------------------------------------------------------------------------------


def writer(world, path):
    """A command that writes `path`, what it reads, and what its files begin with."""
    texts = "one two\nthree\nfour five six\n" * 20
    return world.random.choice([
        (["index", "build", "-m", world.model, path, "-"], texts, b"WISPINDX"),
        (["index", "add", path, "-m", world.model, "-"], texts, b"WISPINDX"),
        (["convert", world.model, path], "", b"GGUF"),
        (["quantize", "--type", "q8_0", "--fallback", "f16", world.model, path], "", b"GGUF"),
        (["calibrate", world.model, "--data", "-", "-o", path, "--rank", "32"], texts, b"GGUF"),
        (["generate", "-m", STORIES, "--text", "Once", "-n", "2", "--state", path], "", b"WISPSAVE"),
        (["embed", "-m", world.model, "--text", "one", "--trace", path], "", (b"{", b"[")),
    ])


@kind
def outputs(world):
    """What exists and is of another kind stays, byte by byte; what is written is whole, and nothing lies beside it."""
    content = world.random.choice([b"what the user wrote\n", b"\0" * 300, b"GGUF", b"WISPINDX" + b"x" * 200, b"{}", b"[]",
                                   STORIES.read_bytes()[:5000], bytes(world.random.randbytes(400))])
    path = world.put("out put.json", content)
    shape = world.random.choice(["file", "link", "folder", "dangling", "hard"])
    target = path
    if shape == "link":
        target = world.folder / "link"
        target.symlink_to(path)
    elif shape == "folder":
        target = world.folder / "folder"
        target.mkdir()
    elif shape == "dangling":
        target = world.folder / "dangling"
        target.symlink_to(world.folder / "nothing")
    elif shape == "hard":
        target = world.folder / "hard"
        os.link(path, target)
    arguments, stdin, begins = writer(world, target)
    done = world.run(*arguments, stdin=stdin.encode())
    now = path.read_bytes()
    if not content.startswith(begins):
        require(now == content, "a file of another kind was replaced by", arguments)
    if shape in ("file", "link", "folder") and not content.startswith(begins):
        require(done.returncode != 0, "nothing was written, and the exit code is 0:", arguments)
    if shape == "folder":
        require(target.is_dir() and not any(target.iterdir()), "a folder was written to")
    require(not world.temporary_files(), "left behind:", world.temporary_files())


@kind
def text_files(world):
    """A byte order mark and CR LF change nothing, wherever a text file is read."""
    lines = ["a" + inputs.text(world.random).replace("\n", " ").replace("\r", " ") for _ in range(world.random.randint(1, 5))]
    plain = "".join(f"{line}\n" for line in lines)
    schema = json.dumps(inputs.schema(world.random, 1), indent=1)
    messages = json.dumps([{"role": "user", "content": line} for line in lines], indent=1)
    data = "".join(json.dumps({"prompt": line, "n": i}) + "\n" for i, line in enumerate(lines))
    ways = [
        (plain, lambda path: ["embed", "-m", world.model, "--format", "ndjson", path]),
        (plain, lambda path: ["tokenize", "-m", world.model, path]),
        (plain, lambda path: ["similarity", "-m", world.model, "-q", "one", path]),
        (data, lambda path: ["generate", "-m", STORIES, "-n", "3", "--data", path]),
        (messages, lambda path: ["generate", "-m", STORIES, "-n", "3", "--chat-format", "plain", "--messages", path]),
        (schema, lambda path: ["generate", "-m", STORIES, "-n", "3", "--text", "a", "--json-schema", path]),
        ('root ::= "a" "b" | "c"\n', lambda path: ["generate", "-m", STORIES, "--text", "a", "--grammar", path]),
        ("{{ messages[0].content }}\n{{ messages|length }}", lambda path: [
            "generate", "-m", STORIES, "-n", "2", "--chat-template", path, "--messages", world.put("m.json", messages)]),
    ]
    content, arguments = world.random.choice(ways)
    forms = [content, "\ufeff" + content, content.replace("\n", "\r\n"), "\ufeff" + content.replace("\n", "\r\n")]
    wanted = None
    for form in forms:
        done = world.run(*arguments(world.put("input", form)))
        found = (done.returncode, done.stdout)
        wanted = wanted or found
        require(found == wanted, repr(form[:200]), "gives", found, "where the plain text gives", wanted)


# ---- values ------------------------------------------------------------------------------------------

VALUES = ["1", "2", "3", "0.5", "8", "0", "-0", "0.0", "-1", "00", "", " ", "1 ", " 1", "+1", "1e999", "nan", "inf", "-inf", "1e-320", "0x10", "1_0", "4294967295",
          "4294967296", "18446744073709551616", "99999999999999999999999", "1,5", "1.5", "١", "1\u00a0", "off", "none", "true"]
NUMBERS = {
    "generate": ["-n", "--temperature", "--top-k", "--top-p", "--min-p", "--typical-p", "--repetition-penalty", "--presence-penalty",
                 "--frequency-penalty", "--penalty-window", "--seed", "--keep", "--beams", "--length-penalty", "--at-once", "--logprobs",
                 "-t", "--stop-id"],
    "embed": ["--dimensions", "-t", "--sparsity", "--memory"],
    "similarity": ["-k", "-t"],
    "search": ["-k", "-t"],
    "quantize": ["--sample", "--target-bytes", "--target-cosine", "--samples", "--tokens", "--seed", "--block-size", "--epsilon",
                 "--clip-threshold", "--target-sparsity"],
    "serve": ["--port", "--connections", "--parallel", "--queue", "--batch-tokens", "--most-texts", "--most-bytes"],
    "convert": ["--sparsity", "--hot", "--hot-bytes", "--hot-tokens"],
    "calibrate": ["--samples", "--tokens", "--rank", "--sparsity", "--hot", "--seed"],
}
WHOLE = {"-n", "--top-k", "--penalty-window", "--seed", "--beams", "--at-once", "--logprobs", "-t", "-k", "--dimensions"}


@kind
def numbers(world):
    """A number is taken or refused as wrong use; what is no number in any notation is refused."""
    command = world.random.choice(list(NUMBERS))
    option, value = world.random.choice(NUMBERS[command]), world.random.choice(VALUES)
    rest = {
        "generate": ["-m", STORIES, "--text", "Once"] + ([] if option == "-n" else ["-n", "2"]),
        "embed": ["-m", world.model, "--text", "one"],
        "similarity": ["-m", world.model, "-q", "one", "--text", "two"],
        "search": [world.folder / "none.index", "-q", "one"],
        "quantize": ["--type", "q8_0", "--dry-run", "--fallback", "f16", world.model],
        "serve": ["-m", world.model, "--address", "256.0.0.1"],
        "convert": [world.model, world.folder / "out.gguf"],
        "calibrate": [world.model, "--data", world.put("none", ""), "-o", world.folder / "out.gguf"],
    }[command]
    done = world.run(command, *rest, option, value)
    if value.strip() in ("", "off", "none", "true", "nan", "1,5", "1_0", "١") or (option in WHOLE and value in ("1.5", "inf", "-1")):
        require(done.returncode == 2, f"{command} {option} {value!r}: exit code {done.returncode}")


@kind
def zeros(world):
    """No zero means that an option was not given: it is refused, or has the effect of a tiny number."""
    option = world.random.choice(["-n", "--top-k", "--top-p", "--typical-p", "--repetition-penalty", "--penalty-window", "--beams", "--at-once"])
    done = world.generate("--text", "Once", *([] if option == "-n" else ["-n", "3"]), option, world.random.choice(["0", "0.0", "-0", "00"]))
    require(done.returncode == 2, option, "0 is taken:", done.stdout[:100])


# ---- many texts --------------------------------------------------------------------------------------


@kind
def batches(world):
    """A bad item has an error in its place, and all others are what they are alone."""
    good = [inputs.text(world.random)[:60] or "a" for _ in range(world.random.randint(1, 4))]
    bad = ["{", '{"prompt": 5}', '{"no": "prompt"}', "5", "[]", "null", json.dumps("long " * 3000), '"\\ud8"', '"a" "b"', '{"prompt":"a"']
    items = [(json.dumps(text), True) for text in good] + [(world.random.choice(bad), False) for _ in range(world.random.randint(0, 3))]
    world.random.shuffle(items)
    data = world.put("data.ndjson", "".join(f"{item}\n" for item, _ in items))
    done = world.generate("--data", data, "-n", "4", "--at-once", world.random.randint(1, 4))
    records = [json.loads(line) for line in done.stdout.decode().splitlines()]
    require(len(records) == len(items), f"{len(records)} records of {len(items)} lines")
    for (item, is_good), record in zip(items, records, strict=True):
        require(("text" in record) == is_good and ("error" in record) != is_good, item, record)
        if is_good:
            alone = world.generate("--text", json.loads(item), "-n", "4")
            require(alone.returncode == 0 and alone.stdout.decode().rstrip("\n") == record["text"].rstrip("\n"), item, alone.stdout, record)


# ---- what is followed --------------------------------------------------------------------------------


@kind
def schemas(world):
    """A schema is followed or refused by its place; a text that ends by itself is JSON."""
    schema = inputs.schema(world.random, world.random.randint(0, 4))
    source = inputs.mutate_json(world.random, json.dumps(schema)) if world.random.random() < 0.3 else json.dumps(schema)
    done = world.generate("--data", world.put("d", '"Value: "\n'), "-n", "60", "--json-schema", world.put("s.json", source), "--temperature", "1",
                          "--seed", world.random.randint(0, 99))
    for line in done.stdout.decode().splitlines():
        record = json.loads(line)
        if record.get("end") == "grammar":
            json.loads(record["text"])


@kind
def grammars(world):
    """A grammar is followed or refused, soon."""
    done = world.generate("--text", "a", "-n", "8", "--grammar", world.put("g.gbnf", inputs.grammar(world.random)))
    require(done.returncode != 1, done.stderr)


@kind
def templates(world):
    """A template is followed or refused; what a message says makes no control token."""
    template = inputs.template(world.random)
    messages = [{"role": world.random.choice(["system", "user", "assistant", "tool", "x"]), "content": inputs.text(world.random)}
                for _ in range(world.random.randint(1, 4))]
    world.generate("--messages", world.put("m.json", json.dumps(messages)), "--chat-template", world.put("t.jinja", template), "-n", "2")


@kind
def tokenizers(world):
    """A vocabulary opens or is refused, and a text that is tokenised comes back."""
    folder = world.folder / "model"
    shutil.copytree(world.random.choice(inputs.folders()), folder)
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix in (".json", ".txt", ".model")]
    for _ in range(world.random.randint(0, 2)):
        path = world.random.choice(files)
        path.write_bytes(inputs.mutate(world.random, path.read_bytes()))
    text = inputs.text(world.random)
    world.run("tokenize", "-m", folder, "--text", text)
    world.run("embed", "-m", folder, "--text", text)
    ids = world.run("tokenize", "-m", STORIES, stdin=(text.replace("\n", " ") + "\n").encode())
    back = world.run("tokenize", "-m", STORIES, "--decode", stdin=ids.stdout)
    # A line begins after a byte order mark, and this vocabulary spells spaces as U+2581.
    wanted = text.replace("\n", " ").replace("\r", "").replace("\ufeff", "").replace("\u2581", " ")
    require(back.stdout.decode().replace("\r", "").replace("\ufeff", "").rstrip("\n") == wanted, repr(text), back.stdout)


@kind
def weights(world):
    """Weights of other formats (ONNX, checkpoints in pickle) and cross-encoders open or are refused, whatever is in them."""
    folder = world.folder / "model"
    shutil.copytree(world.random.choice(inputs.other_folders()), folder)
    files = [path for path in folder.rglob("*") if path.suffix in (".onnx", ".data", ".bin", ".safetensors", ".json")]
    for _ in range(world.random.randint(1, 2)):
        path = world.random.choice(files)
        path.write_bytes(inputs.mutate(world.random, path.read_bytes()))
    world.run("embed", "-m", folder, "--text", "one two")
    world.run("rerank", "-m", folder, "-q", "one", "--text", "two")
    world.run("convert", folder, world.folder / "out.gguf")
    require(not world.temporary_files(), "left behind:", world.temporary_files())


@kind
def prompt_caches(world):
    """A text is the same whatever has become of the cache of prompts, and what is in its folder besides stays."""
    prompt = inputs.text(world.random).replace("\n", " ") + " Once upon a time there was a little girl." * 12
    arguments = ["--text", prompt, "-n", "5", "--prompt-cache", world.folder / "prompts"]
    wanted = world.generate(*arguments[:4])
    require(world.generate(*arguments).stdout == wanted.stdout, "another text while blocks are written")
    notes, victim = world.put("prompts/notes.txt", "what the user wrote"), world.put("victim", "what the user wrote")
    (world.folder / "prompts").chmod(0o700)
    blocks = [path for path in (world.folder / "prompts").iterdir() if path != notes]
    require(blocks, "no block was kept")
    for path in blocks:
        what = world.random.choice(["mutated", "link", "folder", "loop", "empty", "whole"])
        content = path.read_bytes()
        if what != "whole":
            path.unlink()
        if what == "mutated":
            path.write_bytes(inputs.mutate(world.random, content))
        elif what == "link":
            path.symlink_to(victim)
        elif what == "folder":
            path.mkdir()
        elif what == "loop":
            path.symlink_to(path)
        elif what == "empty":
            path.write_bytes(b"")
    again = world.generate(*arguments)
    require(again.stdout == wanted.stdout, "another text from a damaged cache:", again.stdout, again.stderr)
    require(notes.read_bytes() == victim.read_bytes() == b"what the user wrote", "a file of the user has changed")


# ---- servers and caches ------------------------------------------------------------------------------


@kind
def servers(world):
    """A server that lies gives the right rows or an error, in time, and sees no key."""
    with HostileServer(world.random, Path(world.model).read_bytes()) as server:
        arguments = ["embed", "-m", server.url, "--text", "one two"]
        if world.random.random() < 0.4:
            arguments += ["--cold", world.random.choice(["wait", "skip", "all"])]
        done = world.run(*arguments, WISP_HTTP_TIMEOUT="2")
    # Files with digests are in tests/js/remote*.test.mjs; in others a byte may be any other.
    if done.returncode == 0 and not any(fault in ("flipped", "garbage") for _, _, fault in server.log):
        wanted = world.run("embed", "-m", world.model, "--text", "one two")
        require(done.stdout == wanted.stdout, "other rows than the model's", server.log)


@kind
def planted_links(world):
    """What is planted in the cache leads to no write outside it."""
    victim = world.put("victim", b"what the user wrote")
    with HostileServer(world.random, Path(world.model).read_bytes(), honest=True) as server:
        world.run("embed", "-m", server.url, "--text", "one", WISP_HTTP_TIMEOUT="5")
        names = [path for path in (world.folder / "cache").rglob("*") if path.is_file()]
        for path in world.random.sample(names, min(len(names), world.random.randint(1, 3))):
            path.unlink()
            what = world.random.choice(["link", "hard", "loop", "folder", "twin", "open"])
            if what == "link":
                path.symlink_to(victim)
            elif what == "hard":
                os.link(victim, path)
            elif what == "loop":
                path.symlink_to(path)
            elif what == "folder":
                path.mkdir()
            elif what == "twin":
                others = [other for other in names if other != path and other.is_file() and not other.is_symlink()]
                path.symlink_to(world.random.choice(others or [victim]))
            else:
                path.write_bytes(inputs.mutate(world.random, b"x" * 200))
                path.chmod(0o666)
        world.run("embed", "-m", server.url, "--text", "one", WISP_HTTP_TIMEOUT="5")
    require(victim.read_bytes() == b"what the user wrote", "a file outside the cache was written to")


# ---- the campaign ------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=600, help="of processor time (default: 600)")
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--cases", type=int, default=0, help="at most; 0: any number")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds: " + ", ".join(KINDS))
    parser.add_argument("--found", type=Path, default=ROOT / "build/campaign/found", help="where findings go")
    arguments = parser.parse_args()
    kinds = arguments.only.split(",")
    codes, findings, seed = {name: Counter() for name in kinds}, 0, arguments.seed
    with tempfile.TemporaryDirectory(prefix="wisp-uses-") as temporary:
        model = Path(temporary) / "model.gguf"
        subprocess.run([arguments.program, "convert", inputs.folders()[0], model], check=True, capture_output=True)
        world = World(arguments.program, model)

        def spent():
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime

        started = time.time()
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends it early
            while spent() < arguments.seconds and (not arguments.cases or seed - arguments.seed < arguments.cases):
                name = kinds[seed % len(kinds)]
                folder = Path(temporary) / "case"
                folder.mkdir()
                world.begin(seed, folder, codes[name])
                try:
                    KINDS[name](world)
                except (Finding, ValueError) as error:
                    findings += 1
                    kept = arguments.found / f"uses-{name}-{seed}"
                    shutil.rmtree(kept, ignore_errors=True)
                    shutil.copytree(folder, kept, symlinks=True, ignore_dangling_symlinks=True)
                    (kept / "FINDING").write_text(f"{error}\n{world.commands[-3:]}\n")
                    print(f"FOUND {name}, --seed {seed}: {error}\n  {world.commands[-1][0]}", flush=True)
                seed += 1
                shutil.rmtree(folder)
    runs = sum(sum(counter.values()) for counter in codes.values())
    print(f"{spent():.0f} s of processor time, {time.time() - started:.0f} s, {seed - arguments.seed} cases, {runs} runs, {findings} findings")
    for name, counter in codes.items():
        print(f"  {name:16} runs by exit code: " + ", ".join(f"{code}: {n}" for code, n in sorted(counter.items())))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
