import type { ReactNode } from "react";

export interface DataColumn<Row> {
  /** The column's heading, and its label next to the value on small screens. */
  label: string;
  /** Replaces the label on small screens and for assistive technology, if another column has the same label. */
  fullLabel?: string;
  cell: (row: Row) => ReactNode;
  /** Right-aligned, with tabular figures. */
  numeric?: boolean;
  /**
   * The position on small screens. `aside`, for one column only, is to the right of the row's name. `below`, the
   * default, is below the name with the column's label. `hidden` omits the column.
   */
  small?: "aside" | "below" | "hidden";
  /** Makes the heading a link that sorts the table by this column, highest value first. */
  sort?: { href: string; isSorted: boolean };
}

export interface DataTableProps<Row> {
  /** Describes the table for assistive technology. */
  caption: string;
  /** The first column names the row. */
  columns: readonly [DataColumn<Row>, ...DataColumn<Row>[]];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  /** Shown instead of an empty table. Says what the table is for and how to begin. */
  empty: ReactNode;
  /**
   * The breakpoint from which rows are shown as a table, not as cards. `lg` is for more columns than fit on half a
   * screen.
   */
  from?: keyof typeof heads;
}

const heads = {
  sm: { head: "sr-only text-muted text-small sm:not-sr-only", row: "sm:border-line sm:border-b" },
  lg: { head: "sr-only text-muted text-small @[58rem]:not-sr-only", row: "@[58rem]:border-line @[58rem]:border-b" },
} as const;

/**
 * Renders a table or, on small screens, a list of cards with the important columns first. It is styled by `data-table`
 * in styles.css, because classes on every cell would make up most of a page.
 */
export function DataTable<Row>({ caption, columns, rows, rowKey, empty, from = "sm" }: DataTableProps<Row>) {
  if (rows.length === 0) return <div className="max-w-prose text-muted">{empty}</div>;
  const { head, row: headRow } = heads[from];
  // Builds the classes and labels once, because they are the same for every row.
  const classes = columns.map(classOf);
  const below = columns.flatMap(({ label, fullLabel = label, small = "below" }, index) =>
    index > 0 && small === "below" ? [{ label: fullLabel, index: index - 1 }] : [],
  );
  return (
    <table className={from === "sm" ? "data-table" : "data-table data-table-lg"}>
      <caption className="sr-only">{caption}</caption>
      <thead className={head}>
        <tr className={headRow}>
          {columns.map((column, index) => (
            <th
              key={getColumnKey(column)}
              scope="col"
              className={classes[index]}
              title={column.fullLabel}
              aria-sort={column.sort?.isSorted ? "descending" : undefined}
            >
              {renderSortLink(column)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => {
          const [name, ...others] = columns.map(({ cell }) => cell(row));
          return (
            <tr key={rowKey(row)}>
              <th scope="row">
                {name}
                {below.length > 0 ? (
                  <span className="below">
                    {below.map(({ label, index }) => (
                      <span key={index}>{renderLabelled(label, others[index])}</span>
                    ))}
                  </span>
                ) : null}
              </th>
              {others.map((cell, index) => (
                <td key={getColumnKey(columns[index + 1])} className={classes[index + 1]}>
                  {cell}
                </td>
              ))}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function getColumnKey(column: Pick<DataColumn<never>, "label" | "fullLabel"> | undefined): string | undefined {
  return column?.fullLabel ?? column?.label;
}

/** The link is for the table only: where rows are shown as cards, it would be focused but not seen. */
function renderSortLink(column: Pick<DataColumn<never>, "label" | "fullLabel" | "sort">): ReactNode {
  const head = renderHead(column);
  if (!column.sort) return head;
  return (
    <>
      <a href={column.sort.href} className="sort-link">
        {head}
      </a>
      <span className="sort-label">{head}</span>
    </>
  );
}

function renderHead({ label, fullLabel }: Pick<DataColumn<never>, "label" | "fullLabel">): ReactNode {
  if (!fullLabel) return label;
  return (
    <>
      <span aria-hidden="true">{label}</span>
      <span className="sr-only">{fullLabel}</span>
    </>
  );
}

/** Returns a column's classes. Without classes, cells after the first are right-aligned and hidden on small screens. */
function classOf({ numeric, small }: DataColumn<never>, index: number): string | undefined {
  if (index === 0) return undefined;
  return [numeric ? "" : "words", small === "aside" ? "aside" : ""].filter(Boolean).join(" ") || undefined;
}

/** Joins label and value into one text if possible, because each text node takes as long to render as an element. */
function renderLabelled(label: string, value: ReactNode): ReactNode {
  if (typeof value === "string" || typeof value === "number") return `${label} ${value}`;
  return (
    <>
      {`${label} `}
      {value}
    </>
  );
}
