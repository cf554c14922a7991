import { Swatch } from "./column-chart.tsx";

export interface ChartBar {
  /** A unique key, because two bars may have the same name. */
  key: string;
  label: string;
  value: number;
  /** The value, formatted for display. */
  text: string;
  previous?: { value: number; text: string } | null;
}

/** Shows the largest values of a dimension as labelled bars. For values over time, use ColumnChart. */
export function BarList({ label, bars, most = 10 }: { label: string; bars: readonly ChartBar[]; most?: number }) {
  const shown = bars.slice(0, most);
  const largest = Math.max(...shown.flatMap((bar) => [bar.value, bar.previous?.value ?? 0]), Number.MIN_VALUE);
  const widthOf = (value: number) => `${(Math.max(0, value) / largest) * 100}%`;
  return (
    <figure>
      <figcaption className="sr-only">{label}</figcaption>
      <ul className="space-y-3">
        {shown.map(({ key, label: name, value, text, previous }) => (
          <li key={key} className="space-y-1">
            <span className="flex justify-between gap-4">
              <span className="min-w-0 break-words">{name}</span>
              <span className="whitespace-nowrap tabular-nums">
                {previous ? <span className="text-muted text-small">{`${previous.text} before `}</span> : null}
                {text}
              </span>
            </span>
            <svg aria-hidden="true" className="h-2.5 w-full overflow-hidden rounded-button">
              <rect width="100%" height="100%" className="fill-sunken" />
              {previous ? <rect width={widthOf(previous.value)} height="100%" className="fill-edge" /> : null}
              <rect
                y={previous ? 2 : 0}
                width={widthOf(value)}
                height={previous ? 6 : "100%"}
                className="fill-accent"
              />
            </svg>
          </li>
        ))}
      </ul>
      {shown.some(({ previous }) => previous) ? (
        <p aria-hidden="true" className="mt-3 flex flex-wrap gap-x-4 gap-y-1 text-muted text-small">
          <Swatch look="fill-accent" label="This range" />
          <Swatch look="fill-edge" label="Previous range" />
        </p>
      ) : null}
      {bars.length > most ? (
        <p className="mt-3 text-muted text-small">Top {most}. More are in the table below.</p>
      ) : null}
    </figure>
  );
}
