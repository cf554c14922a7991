import type { ReactNode } from "react";
import { axisMarks, labelledIndexes } from "./axis-marks.ts";
import { type Column, ColumnLinks, type FramedColumn } from "./column-links.tsx";

export interface ChartColumn extends Column {
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

/** The drawing's inner units. The drawing is stretched to fit its place, so only straight lines keep their look. */
const heightUnits = 1_000;
const slot = 10;

/**
 * Draws a column chart on the server, so that the chart needs no JavaScript and nothing moves during hydration.
 */
export function ColumnChart({ label, columns, formatMark, whole = false }: ColumnChartProps) {
  const largest = Math.max(0, ...columns.flatMap((c) => [c.value, c.previous?.value ?? 0]));
  const marks = axisMarks(largest, { whole });
  const depthOf = createDepthScale(marks.at(-1) ?? 1);
  const compared = columns.some(({ previous }) => previous);
  const inset = chooseInset(columns.length);
  return (
    <figure className="space-y-2">
      <ChartFrame
        label={label}
        marks={marks}
        formatMark={formatMark}
        columns={columns.map(({ text, previous, ...column }) => ({
          ...column,
          tip: (
            <>
              <span>{text}</span>
              {previous ? <span>{`${previous.label}: ${previous.text}`}</span> : null}
            </>
          ),
        }))}
      >
        <path
          className="fill-accent"
          d={columns
            .map(({ value }, index) =>
              createBarPath({ left: index * slot + inset, width: slot - 2 * inset, top: depthOf(value) }),
            )
            .join("")}
        />
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

export interface StackedColumn extends Column {
  /** The parts from the bottom up, in the order of the series. Without an address, a part leads nowhere. */
  parts: readonly { value: number; text: string; href?: string | undefined }[];
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
  const barOf = (index: number, column: number) => {
    const values = columns[column]?.parts.map(({ value }) => value) ?? [];
    const below = values.slice(0, index).reduce((sum, value) => sum + value, 0);
    const top = depthOf(below + (values[index] ?? 0));
    const ground = depthOf(below);
    return top < ground ? createBarPath({ left: column * slot + inset, width: slot - 2 * inset, top, ground }) : "";
  };
  const lookOf = (index: number) => seriesClasses[Math.min(index, seriesClasses.length - 1)] ?? seriesClasses[0];
  return (
    <figure className="space-y-2">
      <ChartFrame
        label={label}
        marks={marks}
        formatMark={formatMark}
        columns={columns.map(({ parts, ...column }, index) => ({
          ...column,
          value: heights[index] ?? 0,
          parts: parts.flatMap(({ value, ...part }, place) =>
            value > 0 ? { name: series[place] ?? "", ...part } : [],
          ),
        }))}
      >
        {series.map((name, index) => (
          <path key={name} className={lookOf(index)} d={columns.map((_, column) => barOf(index, column)).join("")} />
        ))}
      </ChartFrame>
      <figcaption className="flex flex-wrap gap-x-4 gap-y-1 text-muted text-small">
        {series.map((name, index) => (
          <Swatch key={name} look={lookOf(index)} label={name} />
        ))}
      </figcaption>
    </figure>
  );
}

/**
 * Draws the axis with its marks, the labels of the first, a middle and the last column, and each column's link and
 * tooltip.
 */
function ChartFrame({
  label,
  marks,
  formatMark,
  columns,
  children,
}: {
  label: string;
  marks: readonly number[];
  formatMark: (value: number, top: number) => string;
  columns: readonly FramedColumn[];
  children: ReactNode;
}) {
  const width = Math.max(columns.length, 1) * slot;
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
      <div className="relative h-56">
        <ColumnLinks label={label} columns={columns} />
        <svg
          role="img"
          aria-label={label}
          viewBox={`0 0 ${width} ${heightUnits}`}
          preserveAspectRatio="none"
          className="pointer-events-none absolute inset-0 size-full overflow-visible"
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
        <Hatching columns={columns} depthOf={depthOf} />
      </div>
      <ol aria-hidden="true" className="col-start-2 flex justify-between gap-2 pt-1 text-muted text-small">
        {labelledIndexes(columns.length, 3).map((index) => (
          <li key={index} className="text-center tabular-nums first:text-left last:text-right">
            {columns[index]?.label}
          </li>
        ))}
      </ol>
      {columns.some(isHatched) ? (
        <p aria-hidden="true" className="col-start-2 text-muted text-small">
          Hatched: still in progress
        </p>
      ) : null}
    </div>
  );
}

function isHatched({ isInProgress, value }: FramedColumn): boolean {
  return isInProgress && value > 0;
}

/** Hatches the columns in progress. Has no view box, so that the pattern keeps its angle however wide the chart is. */
function Hatching({ columns, depthOf }: { columns: readonly FramedColumn[]; depthOf: (value: number) => number }) {
  const inset = chooseInset(columns.length) / slot;
  const percent = (share: number) => `${Math.round(share * 100_000) / 1_000}%`;
  if (!columns.some(isHatched)) return null;
  return (
    <svg aria-hidden="true" className="pointer-events-none absolute inset-0 size-full">
      <pattern id="chart-hatching" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect width="3" height="6" className="fill-surface" />
      </pattern>
      {columns.map(({ label, value, isInProgress }, index) =>
        isInProgress ? (
          <rect
            key={label}
            x={percent((index + inset) / columns.length)}
            width={percent((1 - 2 * inset) / columns.length)}
            y={percent(depthOf(value) / heightUnits)}
            height={percent(1 - depthOf(value) / heightUnits)}
            fill="url(#chart-hatching)"
          />
        ) : null,
      )}
    </svg>
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
