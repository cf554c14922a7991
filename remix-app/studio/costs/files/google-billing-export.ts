import { add, type Decimal, formatDecimal, roundHalfEven } from "#shared/decimal.ts";
import { parseExactJson } from "#shared/exact-json.ts";
import { type CostLine, UnreadableCostFile } from "./cost-file.ts";
import { type Columns, type CsvFormat, type CsvRow, columnKey } from "./csv-format.ts";
import { readExactAmount } from "./json-values.ts";
import { readAmount } from "./read-amount.ts";
import { dayBefore, lastDayBefore, type Moment, pacificDay } from "./read-day.ts";

/** Google Cloud bills by days and months in Pacific time. */
const googleSource = { provider: "gcp", timeZone: "America/Los_Angeles" } as const;

/** Converts an invoice's month, YYYYMM, to its first and last day. */
function parseInvoiceMonth(month: string | null): CostLine["bill"] {
  const [, year, number] = /^(\d{4})-?(0[1-9]|1[0-2])$/.exec(month ?? "") ?? [];
  return year ? monthOf(`${year}-${number}-01`) : undefined;
}

function monthOf(day: string): { first: string; last: string } {
  const first = `${day.slice(0, 8)}01`;
  const next = new Date(Date.UTC(Number(day.slice(0, 4)), Number(day.slice(5, 7)), 1));
  return { first, last: dayBefore(next.toISOString().slice(0, 10)) };
}

/** Returns a line of the BigQuery export. The amount is the cost plus its credits, which are negative. */
export function googleLine(row: {
  account: string | null;
  start: Moment;
  end: Moment | null;
  month: string | null;
  service: string | null;
  currency: string;
  amounts: readonly Decimal[];
}): CostLine {
  return {
    ...googleSource,
    account: row.account,
    day: pacificDay(row.start),
    lastDay: row.end ? lastDayBefore(row.end, pacificDay) : undefined,
    bill: parseInvoiceMonth(row.month),
    service: row.service,
    currency: row.currency.toUpperCase(),
    amount: row.amounts.reduce(add),
  };
}

const creditColumns = ["credits.amount", "credit_amount", "credits_amount", "total_credits", "credits_total"] as const;

/**
 * A BigQuery billing table (standard or detailed), exported or saved as CSV.
 * https://cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/standard-usage
 */
export const googleExport: CsvFormat = {
  id: "gcp-bigquery",
  name: "a Google Cloud billing export",
  advice: "Export the billing table from BigQuery with usage_start_time, cost, currency, credits and project.id.",
  isHeader: (has) => has("usage_start_time") && ["cost", "cost_type", "currency", "billing_account_id"].some(has),
  required: [["cost"], ["currency"], ["usage_start_time"]],
  begin(columns) {
    const notes = columns.first("credits", ...creditColumns)
      ? []
      : ["The file has no credits column, so the amounts don’t include discounts. Export the credits column, too."];
    let last: CostLine | undefined;
    return {
      read(row) {
        const credits = creditsOf(row, columns);
        // BigQuery writes a line's second and later credits as separate rows that contain only the credit.
        const isFurtherCredit = last && credits.length > 0 && row.text("cost", "usage_start_time") === null;
        if (isFurtherCredit && last) return { ...last, amount: credits.reduce(add) };
        // BigQuery also writes further labels and tags of a line as separate rows.
        const isFurtherLabel = last && row.text("cost", "usage_start_time", "usage_end_time", "currency") === null;
        if (isFurtherLabel) return { skipped: "additional labels of a line" };
        last = googleLine({
          account: row.text("project.id", "billing_account_id"),
          start: row.moment("usage_start_time"),
          end: row.optionalMoment("usage_end_time"),
          month: row.text("invoice.month"),
          service: row.text("service.description"),
          currency: row.needed("currency"),
          amounts: [row.amount("cost"), ...credits],
        });
        return last;
      },
      end: () => notes,
    };
  },
};

/**
 * Returns a row's credits. They come from a nested column, which is JSON in a CSV file, or from a column summed by a
 * query.
 */
function creditsOf(row: CsvRow, columns: Columns): Decimal[] {
  const flat = creditColumns.find((column) => columns.has(column) && row.text(column) !== null);
  if (flat) return [row.amount(flat)];
  const text = row.text("credits");
  if (text === null) return [];
  if (!/^[[{]/.test(text)) return [row.amount("credits")];
  let parsed: unknown;
  try {
    parsed = parseExactJson(text);
  } catch {
    throw new UnreadableCostFile(
      `${row.where}: column credits isn’t JSON, so its amounts can’t be read. Import the file as it was downloaded.`,
    );
  }
  return creditAmounts(parsed, `${row.where}: column credits`);
}

/** Returns the amounts of a list of credits, or of a single credit. */
export function creditAmounts(credits: unknown, where: string): Decimal[] {
  return (Array.isArray(credits) ? credits : [credits]).flatMap((credit: unknown) => {
    if (credit === null || credit === undefined) return [];
    const { amount } = credit as { amount?: unknown };
    if (amount !== undefined && amount !== null) return [readExactAmount(amount, `${where}, amount`)];
    if (Object.keys(credit).length === 0) return [];
    throw new UnreadableCostFile(`${where} has a credit without an amount. Export the file again.`);
  });
}

/**
 * Prefers subtotals, because they include savings and credits. In files without subtotals, savings and credits are
 * separate rows.
 */
const tableCosts = ["Unrounded subtotal", "Subtotal", "Unrounded cost", "Cost"] as const;
const tableDates = ["Usage start date", "Usage date", "Date"] as const;

/**
 * The cost table of an invoice, as downloaded from the console. Lines above the header name the invoice, and lines
 * below the costs sum them up. https://cloud.google.com/billing/docs/how-to/cost-table
 */
export const googleCostTable: CsvFormat = {
  id: "gcp-cost-table",
  name: "a Google Cloud cost table",
  advice: "Download the cost table of the invoice month, with “Usage start date”, or export from BigQuery.",
  isHeader: (has) =>
    (has("Service description") || has("Project ID") || has("Cost type")) &&
    tableCosts.some(has) &&
    !has("usage_start_time"),
  required: [tableCosts, tableDates],
  begin(columns, preamble) {
    const stated = new Map(preamble.map(([name = "", value = ""]) => [columnKey(name), value.trim()]));
    const currency = stated.get("currency");
    const due = readAmount(stated.get("totalamountdue") ?? "");
    const invoiceDate = /^\d{4}-\d{2}-\d{2}$/.exec(stated.get("invoicedate") ?? "")?.[0];
    const cost = columns.first(...tableCosts) ?? tableCosts[0];
    let lines: Decimal = { units: 0n, scale: 0 };
    let rounding: Decimal = { units: 0n, scale: 0 };
    let total: Decimal | undefined;
    return {
      read(row) {
        const kind = row.text(...tableDates) === null ? classifySummaryRow(row) : null;
        if (kind === "total") {
          if (/^total$/i.test(row.text("Cost type") ?? "Total")) total = row.amount(cost);
          return { skipped: "totals" };
        }
        const amount = row.amount(cost);
        if (kind === "rounding") rounding = add(rounding, amount);
        else lines = add(lines, amount);
        const at = kind === "rounding" ? { day: invoiceDate ?? "", isDay: true, ms: 0 } : row.moment(...tableDates);
        if (at.day === "") return { skipped: "rounding" };
        const end = row.optionalMoment("Usage end date");
        return {
          ...googleSource,
          account: row.text("Project ID", "Billing account ID"),
          day: at.day,
          lastDay: end?.day,
          bill: invoiceDate ? monthOf(invoiceDate) : undefined,
          service: kind === "rounding" ? "Rounding error" : row.text("Service description"),
          currency: (row.text("Currency") ?? currency ?? noCurrency()).toUpperCase(),
          amount,
        };
      },
      end: () => [
        ...(total && !equal(total, lines) && !equal(total, add(lines, rounding))
          ? ["The lines don’t add up to the file’s total. Check that the file is complete."]
          : []),
        ...(due && !equal(roundHalfEven(due, 2), roundHalfEven(add(lines, rounding), 2))
          ? [
              `The invoice total is ${formatDecimal(due)}, but the lines add up to ${formatDecimal(add(lines, rounding))}. Download the table with savings and taxes.`,
            ]
          : []),
      ],
    };
  },
};

function classifySummaryRow(row: CsvRow): "total" | "rounding" | null {
  const labels = row.cells.filter((cell) => /[a-z]/i.test(cell));
  if (labels.some((cell) => /^rounding error$/i.test(cell.trim()))) return "rounding";
  return labels.some((cell) => /^((sub|filtered |grand )?total|tax total)$/i.test(cell.trim())) ? "total" : null;
}

function equal(one: Decimal, other: Decimal): boolean {
  return add(one, { units: -other.units, scale: other.scale }).units === 0n;
}

function noCurrency(): never {
  throw new UnreadableCostFile(
    "The file doesn’t state its currency. Import the cost table as it was downloaded, including the lines above the header.",
  );
}
