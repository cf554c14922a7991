import { type ReactNode, useId } from "react";
import { shortenName } from "./shorten-name.ts";

/** A column of a chart. */
export interface Column {
  /** The name of the day or period. */
  label: string;
  /** Where the column leads. */
  href: string;
  /** Whether the period isn't over, so that the value will grow. */
  isInProgress: boolean;
}

/** A column with its value, and with its tooltip or the parts that the tooltip lists. */
export type FramedColumn = Column & { value: number } & (
    | { tip: ReactNode }
    | { parts: readonly { name: string; text: string; href?: string | undefined }[] }
  );

/** More columns than one wants to tab through. */
const manyColumns = 14;

/**
 * Lays a link and a tooltip behind each column, styled by `chart-links` in styles.css. A tooltip shows on hover and
 * focus. Where nothing hovers, the first touch focuses the item, and the second one follows the link.
 */
export function ColumnLinks({ label, columns }: { label: string; columns: readonly FramedColumn[] }) {
  const end = useId();
  return (
    <>
      {columns.length > manyColumns ? (
        <a href={`#${end}`} className="sr-only focus:not-sr-only focus:absolute focus:z-20 focus:bg-surface">
          Skip the chart’s {columns.length} columns
        </a>
      ) : null}
      <ol aria-label={label} className="chart-links">
        {columns.map((column, index) => {
          const name = column.isInProgress ? `${column.label}, still in progress` : column.label;
          return (
            <li key={column.label} tabIndex={-1} className={index < columns.length / 2 ? undefined : "end"}>
              {"tip" in column ? (
                <a href={column.href}>
                  <span className="tip">
                    <b>{name}</b>
                    {column.tip}
                  </span>
                </a>
              ) : (
                <>
                  <a href={column.href}>
                    <span className="sr-only">Runs of {column.label}</span>
                  </a>
                  <div className="tip">
                    <b>{name}</b>
                    {column.parts.length === 0 ? <span>Nothing used</span> : null}
                    {column.parts.map(({ name: part, text, href }) => {
                      const Part = href === undefined ? "span" : "a";
                      return <Part key={part} href={href}>{`${shortenName(part)} ${text}`}</Part>;
                    })}
                  </div>
                </>
              )}
            </li>
          );
        })}
      </ol>
      <span id={end} tabIndex={-1} />
    </>
  );
}
