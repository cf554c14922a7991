/** Places values along an axis, and names where its marks stand. */
export type Scale = { at: (value: number) => number; marks: readonly number[] };

type Span = { from: number; to: number };

/** From zero, with some four round marks, up to the first that no value passes. */
export function linearScale(values: readonly number[], pixels: Span): Scale {
  const most = Math.max(...values, 0) || 1;
  const rough = most / 4;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = magnitude * ([1, 2, 2.5, 5].find((factor) => factor * magnitude >= rough) ?? 10);
  const count = Math.ceil(most / step - 1e-9);
  const marks = Array.from({ length: count + 1 }, (_, index) => index * step);
  return { marks, at: (value) => pixels.from + ((pixels.to - pixels.from) * value) / (count * step) };
}

/** By magnitude, from the power of ten below the least to the one above the most; what is not positive is left out. */
export function logScale(values: readonly number[], pixels: Span): Scale {
  const positive = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(...positive, 1)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...positive, 1))));
  const marks = Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index));
  const at = (value: number) => {
    const share = (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low);
    return pixels.from + (pixels.to - pixels.from) * share;
  };
  return { marks, at };
}
