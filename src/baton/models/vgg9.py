"""VGG-9 without normalisation: eight 3 x 3 convolutions and one linear layer."""

from torch import nn

WIDTHS = (32, "M", 64, "M", 128, 128, "M", 256, 256, "M", 256, 256, "M")  # M: 2 x 2 max-pooling


def vgg9(shape: tuple[int, ...], classes: int) -> nn.Module:
    """For 32 x 32 images; 2,308,810 parameters on CIFAR-10."""
    layers: list[nn.Module] = []
    channels = shape[0]
    for width in WIDTHS:
        if isinstance(width, str):
            layers.append(nn.MaxPool2d(2))
            continue
        convolution = nn.Conv2d(channels, width, 3, padding=1)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        layers += [convolution, nn.ReLU()]
        channels = width
    last = nn.Linear(channels, classes)
    nn.init.normal_(last.weight, 0.0, 0.01)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, nn.Flatten(), last)
