"""Digests of varied experiments, frozen: cached results stay those of their experiments.

A digest is never written anew here. What would change one is another format: it gets a number of
its own, and results under the digests below have to be found by the programs that made them, as
those of format 1 are (``FORMER``).
"""

from hashlib import blake2b

import pytest

from zenturio.annotate.scan import scan
from zenturio.experiment import ExperimentGenerator
from zenturio.experiment.identity import ask_versions

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
    "links and empty folders": {
        "a.sh": RUN,
        "conf/a.txt": b"a",
        "cfg": ("conf", "link"),
        "node_modules/.bin/tool": ("../tool/cli.js", "link"),
        "node_modules/tool/cli.js": b"1",
        "results": (None, "folder"),
    },
    "a link to a filled file": {
        "a.sh": RUN + "# ZEN$ SUBSTITUTE N = { 1, 2 }\necho N\n",
        "b.sh": ("a.sh", "link"),
    },
    "more files than stand in a leaf": {
        "a.sh": RUN + "# ZEN$ SUBSTITUTE N = { 1, 2 }\necho N\n",
        **{f"data/{i}.txt": b"%d" % i for i in range(40)},
    },
    "a region": {
        "a.py": '# ZEN$ RUN "python3 a.py"\n# ZEN$ CR solve PMETRIC WTIME BEGIN\nx = 1\n# ZEN$ END CR\n'
    },
}

DIGESTS = {
    "a fixed command": [
        "8d39575a310bd65d2f8de6e86db079e7",
    ],
    "a value in a file": [
        "9c2a08b349cc7a499b1d9d43d75ce79d",
        "59b2a6c8cf2ab2b81f6f2f333af9ce39",
    ],
    "a value in a command": [
        "44e4fe38286b1a249daef4cf0711c271",
        "8b0b18c59b7025c2ea2d73bad0044c2b",
    ],
    "a value that only a formula uses": [
        "f52f2c61ed4e317c988a0316a8ba2147",
        "2cd3e755c67319c3396cc17a1428d3c5",
    ],
    "a variable": [
        "54c0bdd7c7c4ce7c71ac448612a91e01",
        "13bb6296c54b2dbf11d4d41d8c705005",
    ],
    "two variables of one parameter": [
        "2cb056d5ef676b6e5f8eefb272572c35",
        "848afb58677c8e1d28a11663be33221f",
    ],
    "an assignment": [
        "eddcdb3fb9e32f6284970696cb15aa2e",
        "e5bfd1fce8b1159d16ff8f94344045d6",
    ],
    "a build": [
        "e7673d5aab21028c52e8b6a762292cd7",
        "45c2a040e28d9f9d15984fa8e9f92aa3",
    ],
    "a build with a value in its command": [
        "0fb4293a65ce25287b97158ef3c6bc12",
        "aaf1bfba0bac66f73c344ffa395739df",
    ],
    "several commands": [
        "ee300fcd0ca90c2cea580c3e35d0b042",
    ],
    "a binary beside it": [
        "47150b98be7ac5233e0a4b3743de8ebd",
    ],
    "a large file beside it": [
        "0b14c3f38289d1e97c8fd686ca81357a",
    ],
    "files in folders": [
        "ff21ae9d97ae86434e049b4276c0881c",
    ],
    "a name beyond ASCII": [
        "624bc2b2b3c1954bec5f482ac4355cc6",
    ],
    "an executable": [
        "aa9cb30c0cb33001591eec30fe810b4e",
    ],
    "repeats": [
        "8d39575a310bd65d2f8de6e86db079e7",
        "c5838b9b805909c32a84a1f43a884490",
    ],
    "repeats with a seed": [
        "65f866b52214c931006f7c674b788cf0",
        "92b54c5114eb688ca57ef4c25c461bcd",
    ],
    "a condition": [
        "5e442d19ac24296e9681d17b07822bd7",
        "b936bd4dd0f72adc2219172dff667990",
    ],
    "a derived parameter": [
        "ab9469b2451f56ebb68c4e1a47be3f70",
        "519086799b6a7fedd1523a9d6f4d31c9",
    ],
    "directives beside a file": [
        "211e35382b32e6b5a55a1322521014f5",
        "ca1c51fb0b0db41033b4249325e7a102",
    ],
    "a study of a folder": [
        "fa313e9c495d96845de6a47afe58f515",
    ],
    "a text that is not UTF-8": [
        "2b6b7003f108ef1de6724c9c6ba5d8a1",
    ],
    "a file, a program and a version that are used": [
        "a7a2db5f5f299601c0047db947e65784",
    ],
    "links and empty folders": [
        "57cd31263b221751b42cede26c0238b9",
    ],
    "a link to a filled file": [
        "505a6fc03fdd2cdc9bfa68413e90b4eb",
        "1b6a311281cfed42a45e221391162900",
    ],
    "more files than stand in a leaf": [
        "a3fc7b7f049375c0efb4016b922ebcbf",
        "9744b3d3322664ee438870a5c010ed9a",
    ],
    "a region": [
        "2a943c4c8d8d99c3eb6eeb180654a309",
    ],
}

# Of format 1, which repositories up to the revision 0004 hold.
FORMER = {
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
    "links and empty folders": [
        "180fccd753e37964750280d90e373409",
    ],
    "a link to a filled file": ["", ""],  # its RUN was there twice: another program
    "more files than stand in a leaf": [
        "a2e8b6cc1554e85f30a5117e91d6d374",
        "920e5c199b959a04360038898718b94c",
    ],
    "a region": [
        "f230c2e7b80015deb7e364e4d2aa8436",
    ],
}

# Programs and keys of points, hashed.
NAMES = {
    "a fixed command": "74bf60ba58f8818f",
    "a value in a file": "1c0a6aa2d09609d4",
    "a value in a command": "3c6790d5bf415d58",
    "a value that only a formula uses": "e73e4d5e6e83158d",
    "a variable": "44fb1d8c8b897ad1",
    "two variables of one parameter": "db1d1dc1e5da40b4",
    "an assignment": "18abf8ce94483490",
    "a build": "504844adc3d2fdb6",
    "a build with a value in its command": "0197171f19f44e46",
    "several commands": "91c11a26c849e31f",
    "a binary beside it": "eee8554bbf804ca4",
    "a large file beside it": "310f9a6fd500b37b",
    "files in folders": "60e28855d3a6b293",
    "a name beyond ASCII": "55b63c1caeebf69f",
    "an executable": "59f8b06a647f6409",
    "repeats": "68f03e6a886522cb",
    "repeats with a seed": "a69b2c6bd6096950",
    "a condition": "00635da8af16633e",
    "a derived parameter": "93a21cc2e8c153ed",
    "directives beside a file": "504053bc2c91aed9",
    "a study of a folder": "a678437157cd431b",
    "a text that is not UTF-8": "c13a1dda623cd02c",
    "a file, a program and a version that are used": "e2394d8c4708fc8c",
    "links and empty folders": "887665bb95779071",
    "a link to a filled file": "fc61d679b7daddf0",
    "more files than stand in a leaf": "99a21ca4422b0f17",
    "a region": "681867e0e32fe6e8",
}


def experiments(folder, files):
    for name, content in files.items():
        content, mode = content if isinstance(content, tuple) else (content, 0o644)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if mode == "link":
            path.symlink_to(content)
            continue
        if mode == "folder":
            path.mkdir()
            continue
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
    application = ask_versions(scan(folder))
    generator, space = ExperimentGenerator(application, former_digests=True), application.space
    points = (space.point(number) for number in range(space.size))
    return [each for point in points for each in generator.experiments(point)]


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_digest_stays_what_it_was(name, tmp_path):
    found = experiments(tmp_path, APPLICATIONS[name])
    assert [each.digest for each in found] == DIGESTS[name]
    assert [each.former for each in found] == FORMER[name]
    assert names_of(found) == NAMES[name]


def names_of(found):
    """A hash of what names experiments beside their digests: the program, and keys of points."""
    parts = [each.program.digest.encode() + each.key for each in found]
    return blake2b(b"".join(parts), digest_size=8).hexdigest()


def test_the_parts_of_a_program_have_the_digests_that_they_had(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app/a.sh").write_text('#ZEN$ RUN "sh a.sh"\n')
    for name, mode in (("plain", 0o644), ("tool", 0o755)):
        (tmp_path / "app" / name).write_text("same")
        (tmp_path / "app" / name).chmod(mode)
    (tmp_path / "app/link").symlink_to("plain")
    assert ExperimentGenerator(scan([tmp_path / "app"])).program == {
        "BUILD": "cae66941d9efbd40",
        "RUN": "d568c936e4c4ecbc",
        "a.sh": "fcdf3ecfe8765399",
        "link": "3e4c7b25ea050d83",
        "plain": "961ae4cb66de1ad2",
        "tool": "b02923f1d3428865",
    }
