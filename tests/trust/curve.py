"""Ed25519 in plain Python, to make the signatures that no honest signer makes. Slow, and for tests only."""

from hashlib import sha512

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)


def recover_x(y, sign):
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * SQRT_M1 % P
    if (x * x - square) % P:
        return None
    return P - x if x % 2 != sign else x


BASE = (recover_x(4 * pow(5, -1, P) % P, 0), 4 * pow(5, -1, P) % P)
IDENTITY = (0, 1)


def add(one, other):
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P)
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P)
    return x % P, y % P


def multiply(number, point):
    total = IDENTITY
    while number:
        if number & 1:
            total = add(total, point)
        point = add(point, point)
        number >>= 1
    return total


def encode(point):
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def decode(raw):
    number = int.from_bytes(raw, "little")
    y = number & (2**255 - 1)
    x = recover_x(y % P, number >> 255)
    return None if x is None else (x % P, y % P)


def challenge(r, public, message):
    return int.from_bytes(sha512(r + public + message).digest(), "little") % L


def secret_scalar(seed):
    raw = bytearray(sha512(seed).digest()[:32])
    raw[0] &= 248
    raw[31] = raw[31] & 127 | 64
    return int.from_bytes(raw, "little")


def torsion_points():
    """The eight points whose order divides eight."""
    for y in range(2, 50):
        point = decode(y.to_bytes(32, "little"))
        if point is None:
            continue
        generator = multiply(L, point)
        points = [multiply(n, generator) for n in range(8)]
        if len(set(points)) == 8:
            return points
    raise AssertionError
