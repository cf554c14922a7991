import type { ReactNode } from "react";

export interface DataColumn<Row> {
  /** Of the column, and its label beside the value on small screens. */
  label: string;
  /** Stands for the label on small screens and for assistive technology, where another column has the same one. */
  fullLabel?: string;
  cell: (row: Row) => ReactNode;
  /** Right-aligned, with digits of one width. */
  numeric?: boolean;
  /**
   * Where the screen is small: `aside` stands at the right beside the row's name (one column should), `below` (the
   * default) beneath the name with its label, `hidden` not at all.
   */
  small?: "aside" | "below" | "hidden";
}

export interface DataTableProps<Row> {
  /** What the table holds, for assistive technology. */
  caption: string;
  /** The first names the row. */
  columns: readonly [DataColumn<Row>, ...DataColumn<Row>[]];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  /** What stands in place of a table without rows: what it is for and how to begin. */
  empty: ReactNode;
  /** From which width on it is a table: `lg` where it has more columns than fit on half a screen. */
  from?: keyof typeof heads;
}

const heads = {
  sm: { head: "sr-only text-muted text-small sm:not-sr-only", row: "sm:border-line sm:border-b" },
  lg: { head: "sr-only text-muted text-small @[58rem]:not-sr-only", row: "@[58rem]:border-line @[58rem]:border-b" },
} as const;

/**
 * A table; where the screen is small, a list of cards with the columns that matter, and the rest beneath. Its looks are
 * `data-table` in styles.css: cells are so many that what each says of its own is most of a page.
 */
export function DataTable<Row>({ caption, columns, rows, rowKey, empty, from = "sm" }: DataTableProps<Row>) {
  if (rows.length === 0) return <div className="max-w-prose text-muted">{empty}</div>;
  const { head, row: headRow } = heads[from];
  // What is the same in each row is put together once, and a cell that stands in two places is made once.
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
            <th key={keyOf(column)} scope="col" className={classes[index]} title={column.fullLabel}>
              {headOf(column)}
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
                      <span key={index}>{labelled(label, others[index])}</span>
                    ))}
                  </span>
                ) : null}
              </th>
              {others.map((cell, index) => (
                <td key={keyOf(columns[index + 1])} className={classes[index + 1]}>
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

function keyOf(column: Pick<DataColumn<never>, "label" | "fullLabel"> | undefined): string | undefined {
  return column?.fullLabel ?? column?.label;
}

function headOf({ label, fullLabel }: Pick<DataColumn<never>, "label" | "fullLabel">): ReactNode {
  if (!fullLabel) return label;
  return (
    <>
      <span aria-hidden="true">{label}</span>
      <span className="sr-only">{fullLabel}</span>
    </>
  );
}

/** What a column has of its own: most are of numbers, beneath the name where the screen is small. */
function classOf({ numeric, small }: DataColumn<never>, index: number): string | undefined {
  if (index === 0) return undefined;
  return [numeric ? "" : "words", small === "aside" ? "aside" : ""].filter(Boolean).join(" ") || undefined;
}

/** One text, where it is one: each more takes as long as an element. */
function labelled(label: string, value: ReactNode): ReactNode {
  if (typeof value === "string" || typeof value === "number") return `${label} ${value}`;
  return (
    <>
      {`${label} `}
      {value}
    </>
  );
}
