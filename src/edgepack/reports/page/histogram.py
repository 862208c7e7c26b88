"""How the texts' cosines lie: bars that stretch with the page, and words beside them that do not."""

from collections.abc import Sequence

WIDTH, HEIGHT = 320, 100
"""Of the drawing, which is stretched."""
BINS = 32


def histogram(cosines: Sequence[float], *, limit: float | None = None) -> str:
    """Bars from the lowest cosine to 1, with the limit of the lowest where there is one; nothing where nothing was measured."""
    if not cosines:
        return ""
    low = min(min(cosines), 1 - 1e-6)
    counts = [0] * BINS
    for cosine in cosines:
        counts[min(int((cosine - low) / (1 - low) * BINS), BINS - 1)] += 1
    step, scale = WIDTH / BINS, HEIGHT / max(counts)
    bars = "".join(
        f'<rect x="{at * step + 0.5:.1f}" y="{HEIGHT - count * scale:.1f}" width="{step - 1:.1f}" height="{count * scale:.1f}">'
        f"<title>{_texts(count)}, cosine {low + (1 - low) * at / BINS:.4f} to {low + (1 - low) * (at + 1) / BINS:.4f}</title></rect>"
        for at, count in enumerate(counts)
        if count
    )
    said = f"cosines of {_texts(len(cosines))} to the original model, lowest {min(cosines):.4f}"
    line = ""
    if limit is not None and limit > low:
        x = (limit - low) / (1 - low) * WIDTH
        line = f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}"/>'
    middle = (low + 1) / 2
    return (
        f'<figure class="histogram"><figcaption>Cosine of each text to the original model. Tallest bar: {_texts(max(counts))}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{said}">{bars}{line}</svg>'
        f'<div class="scale" aria-hidden="true"><span>{low:.4f}</span><span>{middle:.4f}</span><span>1</span></div></figure>\n'
    )


def _texts(count: int) -> str:
    return "1 text" if count == 1 else f"{count:,} texts"
