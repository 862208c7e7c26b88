"""How the texts' cosines lie, as a drawing in SVG."""

from collections.abc import Sequence

WIDTH, HEIGHT, BOTTOM, TOP = 640, 180, 150, 16
BINS = 32


def histogram(cosines: Sequence[float], *, limit: float | None = None) -> str:
    """Bars from the lowest cosine to 1, with the limit of the lowest where there is one; nothing where nothing was measured."""
    if not cosines:
        return ""
    low = min(min(cosines), 1 - 1e-6)
    counts = [0] * BINS
    for cosine in cosines:
        counts[min(int((cosine - low) / (1 - low) * BINS), BINS - 1)] += 1
    step, scale = WIDTH / BINS, (BOTTOM - TOP) / max(counts)
    bars = "".join(
        f'<rect x="{at * step + 1:.1f}" y="{BOTTOM - count * scale:.1f}" width="{step - 2:.1f}" height="{count * scale:.1f}">'
        f"<title>{count} texts from {low + (1 - low) * at / BINS:.5f}</title></rect>"
        for at, count in enumerate(counts)
        if count
    )
    said = f"cosines of {len(cosines)} texts to the original model, lowest {min(cosines):.4f}"
    line = ""
    if limit is not None and limit > low:
        x = (limit - low) / (1 - low) * WIDTH
        line = f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{BOTTOM}"/>'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{said}">'
        f'{bars}{line}<line x1="0" x2="{WIDTH}" y1="{BOTTOM}" y2="{BOTTOM}"/>'
        f'<text x="0" y="{HEIGHT - 12}">{low:.4f}</text>'
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">cosine of each text; the tallest bar is {max(counts)} texts</text>'
        f'<text x="{WIDTH}" y="{HEIGHT - 12}" text-anchor="end">1</text></svg>\n'
    )
