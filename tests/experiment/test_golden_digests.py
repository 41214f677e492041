"""Digests of varied experiments, written down once: cached results stay those of their experiments.

A change of a digest here is a change of the format: it needs an upgrade of what repositories hold.
"""

import pytest

from zenturio.annotate.scan import scan
from zenturio.experiment import Generator
from zenturio.experiment.used import ask_versions

RUN = '# ZEN$ RUN "sh a.sh"\n'

APPLICATIONS = {
    "a fixed command": {"a.sh": RUN},
    "a value in a file": {"a.sh": RUN + "# ZEN$ SUBSTITUTE N = { 1, 2 }\necho N\n"},
    "a value in a command": {"a.sh": '# ZEN$ PARAM n = { 1, 2 }\n# ZEN$ RUN "sh a.sh {n}"\n'},
    "a value that only a formula uses": {
        "a.sh": RUN + "# ZEN$ PARAM n = { 1, 2 }\n# ZEN$ METRIC m := wtime / n\n"
    },
    "a variable": {"a.sh": RUN + "# ZEN$ ENV MODE = { fast, slow }\n"},
    "two variables of one parameter": {
        "a.sh": RUN + "# ZEN$ ENV A = { 1, 2 } AS n\n# ZEN$ ENV B = @n\n"
    },
    "an assignment": {"a.py": '# ZEN$ RUN "python3 a.py"\n# ZEN$ ASSIGN n = { 1, 2 }\nprint(n)\n'},
    "a build": {
        "m.c": '//ZEN$ SUBSTITUTE N = { 1, 2 }\n//ZEN$ BUILD "cc m.c -o m"\n//ZEN$ RUN "./m"\nint n = N;\n'
    },
    "a build with a value in its command": {
        "m.c": '//ZEN$ PARAM o = { 0, 3 }\n//ZEN$ BUILD "cc -O{o} m.c"\n//ZEN$ RUN "./a.out"\n'
    },
    "several commands": {"a.sh": '# ZEN$ RUN "sh a.sh"\n# ZEN$ RUN "sh a.sh again" TIMEOUT 3s\n'},
    "a binary beside it": {"a.sh": RUN, "data.bin": b"\0\1\2"},
    "a large file beside it": {"a.sh": RUN, "large.txt": b"x" * (2**20 + 1)},
    "files in folders": {"a.sh": RUN, "src/b.txt": b"b", "src/deep/c.txt": b"c"},
    "a name beyond ASCII": {"a.sh": RUN, "gr\u00f6\u00dfe.txt": b"1"},
    "an executable": {"a.sh": RUN, "tool": (b"#!/bin/sh\n", 0o755)},
    "repeats": {"a.sh": RUN + "# ZEN$ REPEAT 2\n"},
    "repeats with a seed": {"a.sh": '# ZEN$ REPEAT 2 SEED s\n# ZEN$ RUN "sh a.sh {s}"\n'},
    "a condition": {
        "a.sh": RUN
        + "# ZEN$ PARAM solver = { cg, lu }\n"
        + "# ZEN$ SUBSTITUTE TOL = { 1e-3 } WHEN solver == 'cg' DEFAULT 0\necho TOL\n"
    },
    "a derived parameter": {
        "a.sh": RUN + "# ZEN$ PARAM n = { 1, 2 }\n# ZEN$ SUBSTITUTE H := 2 * n\necho H\n"
    },
    "directives beside a file": {
        "in.json": b'{"n": 1}',
        "in.json.zen": 'ZEN$ SUBSTITUTE 1 = { 1, 2 } AS n\nZEN$ RUN "cat in.json"\n',
    },
    "a study of a folder": {"study.zen": 'ZEN$ PARAM n = { 1 }\nZEN$ RUN "echo {n}"\n', "a": b"1"},
    "a text that is not UTF-8": {"a.sh": b'# ZEN$ RUN "sh a.sh"\n# caf\xe9\n'},
    "a file, a program and a version that are used": {
        "a.sh": RUN
        + '# ZEN$ USE FILE "data.txt"\n# ZEN$ USE PROGRAM "./tool"\n# ZEN$ USE VERSION "echo 1.2"\n',
        "data.txt": "data",
        "tool": (b"#!/bin/sh\n", 0o755),
    },
    "a region": {
        "a.py": '# ZEN$ RUN "python3 a.py"\n# ZEN$ CR solve PMETRIC WTIME BEGIN\nx = 1\n# ZEN$ END CR\n'
    },
}

DIGESTS = {
    "a fixed command": [
        "865892545d0ef9fa75d3f51527e5067a",
    ],
    "a value in a file": [
        "4724d36243a2343da91fbe982c621150",
        "2371575ffdbed9d9953ca18f3d54e16c",
    ],
    "a value in a command": [
        "cbebe2cf43c76801b348e9890b75cf62",
        "e9893037ba851dd04ea3b6e1d6604090",
    ],
    "a value that only a formula uses": [
        "70f0990dabc432b10d6be408819f369c",
        "91f9793ae6b98d4c8889728e0b960247",
    ],
    "a variable": [
        "8248e17abc637751a60ae919b9f21767",
        "ef4a47925056ad3cccd7290a236ef8e5",
    ],
    "two variables of one parameter": [
        "6cd09aa0608bf791d6caa5bca126ed5a",
        "51702a9a64c82e16863017eea3a7efe0",
    ],
    "an assignment": [
        "fadecc52fdd9ebdbdfa1d8dec974454f",
        "68be76227f014abfea9e3934d255bc66",
    ],
    "a build": [
        "af92ae82132e4dec3dfc3d7aef0f9d46",
        "334226bd13a67750556c1adf0e02d928",
    ],
    "a build with a value in its command": [
        "70a6242010aa46088a77f81686245e29",
        "1354fcfd5949a14efce3e5c0a83afa17",
    ],
    "several commands": [
        "9b981bfb5e00c30d5d7c9f44bead5059",
    ],
    "a binary beside it": [
        "89b7e07b9e14de715e89db18fac2df88",
    ],
    "a large file beside it": [
        "37dfa932b51632c73e728cd2a0eb8217",
    ],
    "files in folders": [
        "a3f7a7d6467ea62d553b930b3890bdde",
    ],
    "a name beyond ASCII": [
        "9b4bd1443c0dfdf5bf40dd84ee881ad1",
    ],
    "an executable": [
        "8ec09b10b02747033d088d6488442081",
    ],
    "repeats": [
        "865892545d0ef9fa75d3f51527e5067a",
        "f2714947a4171175c2084a55b5c1dce8",
    ],
    "repeats with a seed": [
        "b285f3335065f56b7cee4565fe800024",
        "2a4ef81d6b1c192f6bf233d1881952e1",
    ],
    "a condition": [
        "e6f353eb0a2848cdd2063528cc0779b2",
        "17f4a77b4a392291ddb166d9370d26f7",
    ],
    "a derived parameter": [
        "b9038621d24bfeaa0e561cf02831dfa0",
        "781e26a8c4ac6d7696faa12294c73f74",
    ],
    "directives beside a file": [
        "c2844d34af2b05742b0d9dbc0eaf993a",
        "01c40f58d029e65d0511b88dd32839ca",
    ],
    "a study of a folder": [
        "f353875bdcb2ff1cd885c9f2ddf15f8e",
    ],
    "a text that is not UTF-8": [
        "a8b52ef3eb7959e66c489c327bbb8061",
    ],
    "a file, a program and a version that are used": [
        "b5029cb13eac05f9f3c08eedf9ebc57e",
    ],
    "a region": [
        "f230c2e7b80015deb7e364e4d2aa8436",
    ],
}


def digests(folder, files):
    for name, content in files.items():
        content, mode = content if isinstance(content, tuple) else (content, 0o644)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
    application = ask_versions(scan(folder))
    generator, space = Generator(application), application.space
    points = (space.point(number) for number in range(space.size))
    return [each.digest for point in points for each in generator.experiments(point)]


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_digest_stays_what_it_was(name, tmp_path):
    assert digests(tmp_path, APPLICATIONS[name]) == DIGESTS[name]
