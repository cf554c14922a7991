import { linearScale, logScale, type Scale } from "./scale.ts";

/** Names the colour and the dash of a line, or the fill of a bar. */
export type Series = { kind: "gatehouse" | "bare" | "portkey"; label: string };
/** Median, lowest and highest over the rounds. */
export type Spread = { middle: number; low: number; high: number };
export type Curve = Series & { points: readonly Spread[] };
export type Bars = { label: string; goal?: number; bars: readonly (Series & Spread)[] };

const width = 640;
const height = 280;
const frame = { left: 64, right: width - 12, top: 24, bottom: height - 40 };
const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Text for HTML and SVG, attributes included. */
export const escapeHtml = (text: string): string => text.replaceAll(/[&<>"']/g, (sign) => escapes[sign] ?? sign);

/** A number with three significant digits at most. */
export const shortNumber = (value: number): string => value.toLocaleString("en", { maximumSignificantDigits: 3 });

/** Latencies by quantile, each with the band between its rounds; the axis of times by magnitude. */
export function curvePlot(plot: { name: string; unit: string; shares: readonly string[]; curves: readonly Curve[] }) {
  const { name, unit, shares, curves } = plot;
  const y = logScale(
    curves.flatMap(({ points }) => points.flatMap(({ low, high }) => [low, high])),
    { from: frame.bottom, to: frame.top },
  );
  const x = (index: number) => frame.left + ((frame.right - frame.left) * (index + 0.5)) / shares.length;
  const line = (points: readonly Spread[], key: keyof Spread) =>
    points.map((point, index) => `${round(x(index))},${round(y.at(point[key]))}`);
  const drawn = curves.map(({ kind, points }) => {
    const band = [...line(points, "low"), ...line(points, "high").reverse()].join(" ");
    return (
      `<polygon class="band ${kind}" points="${band}"/>` +
      `<polyline class="line ${kind}" points="${line(points, "middle").join(" ")}"/>`
    );
  });
  const names = shares.map((share, index) => text(share, { x: x(index), y: frame.bottom + 18, anchor: "middle" }));
  return svg(name, [grid(y, unit), ...names, ...drawn]);
}

/** Bars side by side, from zero, each with a whisker from its lowest to its highest round, and the goal as a line. */
export function barPlot({ name, unit, groups }: { name: string; unit: string; groups: readonly Bars[] }): string {
  const y = linearScale(
    groups.flatMap(({ goal = 0, bars }) => [goal, ...bars.map(({ high }) => high)]),
    { from: frame.bottom, to: frame.top },
  );
  const groupWidth = (frame.right - frame.left) / groups.length;
  const barWidth = Math.min(64, (groupWidth * 0.7) / Math.max(...groups.map(({ bars }) => bars.length)));
  const drawn = groups.flatMap(({ label, goal, bars }, group) => {
    const centre = frame.left + groupWidth * (group + 0.5);
    const from = centre - (barWidth * bars.length) / 2;
    const each = bars.map(({ kind, middle, low, high }, index) => {
      const left = from + barWidth * index;
      const whisker = left + barWidth / 2;
      return (
        `<rect class="bar ${kind}" x="${round(left + 2)}" y="${round(y.at(middle))}" ` +
        `width="${round(barWidth - 4)}" height="${round(frame.bottom - y.at(middle))}"/>` +
        `<path class="whisker" d="M${round(whisker)} ${round(y.at(low))}V${round(y.at(high))}"/>` +
        text(shortNumber(middle), { x: whisker, y: y.at(high) - 5, anchor: "middle" })
      );
    });
    const aim = goal
      ? `<path class="goal" d="M${round(centre - groupWidth * 0.45)} ${round(y.at(goal))}H${round(centre + groupWidth * 0.45)}"/>`
      : "";
    return [...each, aim, text(label, { x: centre, y: frame.bottom + 18, anchor: "middle" })];
  });
  return svg(name, [grid(y, unit), ...drawn]);
}

/** A figure through the seconds of the run, and the goal as a line. */
export function timePlot(plot: {
  name: string;
  unit: string;
  points: readonly { atSeconds: number; value: number }[];
  goal: number;
}): string {
  const { name, unit, points, goal } = plot;
  const y = linearScale([goal, ...points.map(({ value }) => value)], { from: frame.bottom, to: frame.top });
  const x = linearScale(
    points.map(({ atSeconds }) => atSeconds),
    { from: frame.left, to: frame.right },
  );
  const line = points.map(({ atSeconds, value }) => `${round(x.at(atSeconds))},${round(y.at(value))}`).join(" ");
  const names = x.marks.map((mark) =>
    text(`${shortNumber(mark)} s`, {
      x: x.at(mark),
      y: frame.bottom + 18,
      anchor: mark === x.marks.at(-1) ? "end" : "middle",
    }),
  );
  return svg(name, [
    grid(y, unit),
    ...names,
    `<path class="goal" d="M${frame.left} ${round(y.at(goal))}H${frame.right}"/>`,
    `<polyline class="line gatehouse" points="${line}"/>`,
  ]);
}

function grid({ at, marks }: Scale, unit: string): string {
  return marks
    .map((mark, index) => {
      const named = index === marks.length - 1 ? `${shortNumber(mark)} ${unit}` : shortNumber(mark);
      return (
        `<path class="grid" d="M${frame.left} ${round(at(mark))}H${frame.right}"/>` +
        text(named, { x: frame.left - 8, y: at(mark) + 4, anchor: "end" })
      );
    })
    .join("");
}

function text(content: string, { x, y, anchor }: { x: number; y: number; anchor: "start" | "middle" | "end" }): string {
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escapeHtml(content)}</text>`;
}

function svg(name: string, parts: readonly string[]): string {
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeHtml(name)}">${parts.join("")}</svg>`;
}

const round = (value: number) => Math.round(value * 10) / 10;
