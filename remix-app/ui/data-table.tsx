import type { ReactNode } from "react";

export interface DataColumn<Row> {
  /** Of the column, and its label beside the value on small screens. */
  label: string;
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
  from?: keyof typeof looks;
}

const looks = {
  sm: {
    head: "sr-only text-muted text-small sm:not-sr-only",
    headRow: "sm:border-line sm:border-b",
    below: "sm:hidden",
    start: "sm:text-left",
    cell: "hidden sm:table-cell",
  },
  lg: {
    head: "sr-only text-muted text-small lg:not-sr-only",
    headRow: "lg:border-line lg:border-b",
    below: "lg:hidden",
    start: "lg:text-left",
    cell: "hidden lg:table-cell",
  },
} as const;

/** A table; where the screen is small, a list of cards with the columns that matter, and the rest beneath. */
export function DataTable<Row>({ caption, columns, rows, rowKey, empty, from = "sm" }: DataTableProps<Row>) {
  if (rows.length === 0) return <div className="max-w-prose text-muted">{empty}</div>;
  const look = looks[from];
  // What is the same in each row is put together once, and a cell that stands in two places is made once.
  const classes = columns.map((column, index) => cellClass(column, { index, look }));
  const cellClasses = classes.map(
    (of, index) => `${of} ${index === 0 ? "wrap-anywhere py-2.5 font-normal" : "py-2.5"}`,
  );
  const below = columns.flatMap(({ small = "below" }, index) => (index > 0 && small === "below" ? [index] : []));
  return (
    <table className="w-full text-left">
      <caption className="sr-only">{caption}</caption>
      <thead className={look.head}>
        <tr className={look.headRow}>
          {columns.map((column, index) => (
            <th key={column.label} scope="col" className={`${classes[index]} py-2 font-medium`}>
              {column.label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => {
          const [name, ...others] = columns.map(({ cell }) => cell(row));
          return (
            <tr key={rowKey(row)} className="border-line border-b align-baseline last:border-b-0">
              <th scope="row" className={cellClasses[0]}>
                {name}
                {below.length > 0 ? (
                  <span className={`mt-1 flex flex-wrap gap-x-3 text-muted text-small tabular-nums ${look.below}`}>
                    {below.map((index) => (
                      <span key={index}>
                        {columns[index]?.label} {others[index - 1]}
                      </span>
                    ))}
                  </span>
                ) : null}
              </th>
              {others.map((cell, index) => (
                <td key={columns[index + 1]?.label} className={cellClasses[index + 1]}>
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

function cellClass(
  { numeric, small }: DataColumn<never>,
  { index, look }: { index: number; look: (typeof looks)[keyof typeof looks] },
): string {
  const always = index === 0 || small === "aside";
  return [
    index === 0 ? "" : "pl-4",
    numeric ? "whitespace-nowrap text-right tabular-nums" : "",
    small === "aside" ? "text-right" : "",
    small === "aside" && !numeric ? look.start : "",
    always ? "" : look.cell,
  ]
    .filter(Boolean)
    .join(" ");
}
