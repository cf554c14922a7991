import { Fragment, type ReactNode } from "react";

export interface ChartColumn {
  label: string;
  value: number;
  /** The value, formatted for display and exact enough to be quoted. */
  text: string;
  /** The corresponding value of the previous range, if the chart shows a comparison. */
  previous?: { label: string; value: number; text: string } | null;
}

export interface ColumnChartProps {
  /** The chart's title for assistive technology. The table below it has the same figures. */
  label: string;
  columns: readonly ChartColumn[];
  /** Formats the label of an axis mark; `top` is the highest mark. */
  formatMark: (value: number, top: number) => string;
  /** Whether the values are counts, so that all axis marks are whole numbers. */
  whole?: boolean;
}

/** The drawing's inner units. The drawing is stretched to fit its place. */
const heightUnits = 1_000;
const slot = 10;

/**
 * Draws a column chart on the server, so that the chart needs no JavaScript and nothing moves during hydration. The
 * columns are styled by `chart-columns` in styles.css, because the pages' policy forbids style attributes.
 */
export function ColumnChart({ label, columns, formatMark, whole = false }: ColumnChartProps) {
  const largest = Math.max(0, ...columns.flatMap((c) => [c.value, c.previous?.value ?? 0]));
  const marks = axisMarks(largest, { whole });
  const depthOf = createDepthScale(marks.at(-1) ?? 1);
  const compared = columns.some(({ previous }) => previous);
  const inset = chooseInset(columns.length);
  return (
    <figure className="space-y-2">
      <ChartFrame label={label} marks={marks} formatMark={formatMark} names={columns.map((column) => column.label)}>
        <g className="chart-columns">
          {columns.map(({ label: name, value, text, previous }, index) => {
            const left = index * slot;
            return (
              <Fragment key={name}>
                <path d={createBarPath({ left, width: slot, top: 0 })}>
                  <title>
                    {previous ? `${name}: ${text} (${previous.label}: ${previous.text})` : `${name}: ${text}`}
                  </title>
                </path>
                <path
                  className="now"
                  d={createBarPath({ left: left + inset, width: slot - 2 * inset, top: depthOf(value) })}
                />
              </Fragment>
            );
          })}
        </g>
        {compared ? <PreviousLine depths={columns.map(({ previous }) => previous && depthOf(previous.value))} /> : null}
      </ChartFrame>
      {compared ? (
        <figcaption className="flex flex-wrap gap-x-4 gap-y-1 text-muted text-small">
          <Swatch look="fill-accent" label="This range" />
          <span className="inline-flex items-center gap-1.5">
            <svg aria-hidden="true" viewBox="0 0 16 10" className="chart-previous h-2.5 w-4">
              <path d="M0 5H16" />
            </svg>
            Previous range
          </span>
        </figcaption>
      ) : null}
    </figure>
  );
}

/** Draws the previous range as a stepped line over the columns. */
function PreviousLine({ depths }: { depths: readonly (number | null | undefined)[] }) {
  const steps = depths
    .map((depth, index) => {
      if (depth == null) return "";
      const begin = depths[index - 1] == null ? `M${index * slot} ${depth}` : `V${depth}`;
      return `${begin}H${(index + 1) * slot}`;
    })
    .join("");
  return (
    <g className="chart-previous">
      <path d={steps} />
    </g>
  );
}

export interface StackedColumn {
  label: string;
  /** The parts from the bottom up, in the order of the series. */
  parts: readonly { value: number; text: string }[];
}

/** The fill classes of the series, which differ in hue and lightness. The last class is for all further series. */
const seriesClasses = [
  "fill-series-1",
  "fill-series-2",
  "fill-series-3",
  "fill-series-4",
  "fill-series-5",
  "fill-series-6",
  "fill-edge",
] as const;

/**
 * Draws a column chart over time in the style of {@link ColumnChart}, with up to seven stacked series.
 * @param props.series the names of the series, in the order of each column's parts
 */
export function StackedColumnChart({
  label,
  series,
  columns,
  formatMark,
  whole = false,
}: Omit<ColumnChartProps, "columns"> & { series: readonly string[]; columns: readonly StackedColumn[] }) {
  const heights = columns.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0));
  const marks = axisMarks(Math.max(0, ...heights), { whole });
  const depthOf = createDepthScale(marks.at(-1) ?? 1);
  const inset = chooseInset(columns.length);
  const lookOf = (index: number) => seriesClasses[Math.min(index, seriesClasses.length - 1)] ?? seriesClasses[0];
  return (
    <figure className="space-y-2">
      <ChartFrame label={label} marks={marks} formatMark={formatMark} names={columns.map((column) => column.label)}>
        {columns.map(({ label: name, parts }, column) => {
          let below = 0;
          return parts.map(({ value, text }, index) => {
            const ground = depthOf(below);
            below += value;
            if (value <= 0) return null;
            return (
              <path
                key={`${name} ${series[index]}`}
                className={lookOf(index)}
                d={createBarPath({ left: column * slot + inset, width: slot - 2 * inset, top: depthOf(below), ground })}
              >
                <title>{`${name}, ${series[index]}: ${text}`}</title>
              </path>
            );
          });
        })}
      </ChartFrame>
      <figcaption className="flex flex-wrap gap-x-4 gap-y-1 text-muted text-small">
        {series.map((name, index) => (
          <Swatch key={name} look={lookOf(index)} label={name} />
        ))}
      </figcaption>
    </figure>
  );
}

/** Draws the axis with its marks, and the labels of the first, a middle and the last column. */
function ChartFrame({
  label,
  marks,
  formatMark,
  names,
  children,
}: {
  label: string;
  marks: readonly number[];
  formatMark: (value: number, top: number) => string;
  names: readonly string[];
  children: ReactNode;
}) {
  const width = Math.max(names.length, 1) * slot;
  const depthOf = createDepthScale(marks.at(-1) ?? 1);
  return (
    <div className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-2">
      <ol aria-hidden="true" className="-my-2 flex h-60 flex-col-reverse justify-between text-right">
        {marks.map((mark) => (
          <li key={mark} className="h-4 text-muted text-small leading-4 tabular-nums">
            {formatMark(mark, marks.at(-1) ?? mark)}
          </li>
        ))}
      </ol>
      <svg
        role="img"
        aria-label={label}
        viewBox={`0 0 ${width} ${heightUnits}`}
        preserveAspectRatio="none"
        className="h-56 w-full overflow-visible"
      >
        {marks.map((mark) => (
          <path
            key={mark}
            d={`M0 ${depthOf(mark)}H${width}`}
            vectorEffect="non-scaling-stroke"
            className={mark === 0 ? "stroke-edge" : "stroke-line"}
          />
        ))}
        {children}
      </svg>
      <ol aria-hidden="true" className="col-start-2 flex justify-between gap-2 pt-1 text-muted text-small">
        {labelledIndexes(names.length, 3).map((index) => (
          <li key={index} className="whitespace-nowrap tabular-nums">
            {names[index]}
          </li>
        ))}
      </ol>
    </div>
  );
}

/**
 * Returns how far below the top a value is drawn, to the hundredth of a unit, which is less than a hundredth of a
 * pixel.
 */
function createDepthScale(top: number): (value: number) => number {
  return (value) => Math.round((1 - Math.max(0, value) / top) * heightUnits * 100) / 100;
}

const chooseInset = (columns: number) => (columns > 120 ? 1 : 2);

/** Returns the path of a column, or of one part of a stacked column, from `top` down to `ground`. */
function createBarPath({
  left,
  width,
  top,
  ground = heightUnits,
}: Record<"left" | "width" | "top", number> & { ground?: number }): string {
  return `M${left} ${ground}V${top}h${width}V${ground}z`;
}

export function Swatch({ look, label }: { look: string; label: string }) {
  return (
    <span className="inline-flex items-center gap-1.5">
      <svg aria-hidden="true" viewBox="0 0 10 10" className="size-2.5">
        <rect width="10" height="10" rx="2" className={look} />
      </svg>
      {label}
    </span>
  );
}

const steps = [1, 2, 2.5, 5, 10];

/**
 * Returns an axis's marks from zero up to a round number that no value exceeds.
 * @param largest the largest drawn value, at least 0
 * @param options.whole for counts, which have no marks between whole numbers
 */
export function axisMarks(largest: number, { intervals = 4, whole = false } = {}): number[] {
  const least = largest === 0 || (whole && largest < intervals) ? intervals : largest;
  const target = least / intervals;
  const power = 10 ** Math.floor(Math.log10(target));
  const fits = (step: number) => step * power >= target * (1 - 1e-9) && !(whole && !Number.isInteger(step * power));
  const step = (steps.find(fits) ?? 10) * power;
  return Array.from({ length: intervals + 1 }, (_, index) => Number((step * index).toPrecision(12)));
}

/** Returns the positions that get a label: the first, the last, and some evenly spaced between them. */
export function labelledIndexes(length: number, most = 5): number[] {
  if (length <= most) return Array.from({ length }, (_, index) => index);
  return Array.from({ length: most }, (_, index) => Math.round((index * (length - 1)) / (most - 1)));
}
