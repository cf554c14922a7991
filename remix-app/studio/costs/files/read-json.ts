import { anthropicPages } from "./anthropic-costs.ts";
import { type CostLine, type ReadLine, UnreadableCostFile } from "./cost-file.ts";
import { creditAmounts, googleLine } from "./google-billing-export.ts";
import { isObject, type JsonFormat, type JsonObject, jsonValues, readExactAmount, textOf } from "./json-values.ts";
import { openAiPages } from "./openai-costs.ts";
import { type Moment, readMoment } from "./read-day.ts";

const pageFormats: readonly JsonFormat[] = [openAiPages, anthropicPages];
const googleRows = { id: "gcp-bigquery-json", name: "a Google Cloud billing export" };

const formatNames = [...pageFormats.map(({ name }) => name), "Google Cloud’s billing export"];

type OnFormat = (format: { id: string; name: string }) => void;
type ReadRow = { read: ReadLine; where: string };

/** Reads JSON cost files. They contain one or more pages of costs, or the rows of a billing export. */
export function jsonReader() {
  const buckets = new Map<string, string>();
  let repeated = 0;
  let pages = 0;
  let lastPages = 0;

  function* readBucket(format: JsonFormat, bucket: JsonObject, where: string): Generator<ReadRow> {
    const lines = format.readBucket(bucket, where);
    const content = JSON.stringify(bucket);
    const accounts = new Set(lines.map((line) => ("skipped" in line ? null : line.account)));
    const keys = [...accounts].map((account) => JSON.stringify([format.bucketStart(bucket), account]));
    const known = keys.filter((key) => buckets.has(key));
    if (known.length > 0) {
      if (!known.every((key) => buckets.get(key) === content) || known.length < keys.length) {
        throw new UnreadableCostFile(
          `${where}: ${format.bucketStart(bucket)} is in the file twice with different costs. Export it again.`,
        );
      }
      repeated++;
      return;
    }
    for (const key of keys) buckets.set(key, content);
    for (const read of lines) yield { read, where };
  }

  function* readValue(value: unknown, { where, found }: { where: string; found: OnFormat }): Generator<ReadRow> {
    if (Array.isArray(value)) {
      for (const [n, one] of value.entries()) yield* readValue(one, { where: `${where}[${n}]`, found });
      return;
    }
    if (!isObject(value)) throw unknownJson(value);
    const format = pageFormats.find(({ isBucket }) => isBucket(value));
    if (format) {
      found(format);
      yield* readBucket(format, value, where);
    } else if ("usage_start_time" in value) {
      found(googleRows);
      yield { read: readGoogleRow(value, where), where };
    } else if (Array.isArray(value.data) && !("error" in value)) {
      pages++;
      if (value.has_more !== true) lastPages++;
      yield* readValue(value.data, { where: `${where}.data`, found });
    } else throw unknownJson(value);
  }

  return {
    async *read(text: AsyncIterable<string>, found: OnFormat): AsyncGenerator<ReadRow> {
      let number = 0;
      for await (const value of jsonValues(text)) yield* readValue(value, { where: `Value ${++number}`, found });
    },
    /**
     * @returns notes about the file
     * @throws UnreadableCostFile if the last page is missing
     */
    end(): string[] {
      if (pages > 0 && lastPages === 0) {
        throw new UnreadableCostFile(
          "Pages are missing: the last one states that there are more (has_more). Import all pages together, or export a shorter range.",
        );
      }
      if (repeated === 0) return [];
      return [
        repeated === 1
          ? "One day is in the file more than once. It counts once."
          : `${repeated} days are in the file more than once. Each counts once.`,
      ];
    },
  };
}

function readGoogleRow(row: JsonObject, where: string): CostLine {
  const member = (outer: string, inner: string): string | null => {
    const nested = row[outer];
    return (
      textOf(isObject(nested) ? nested[inner] : undefined) ??
      textOf(row[`${outer}.${inner}`] ?? row[`${outer}_${inner}`])
    );
  };
  const time = (name: string): Moment => {
    const moment = readMoment(textOf(row[name]) ?? "");
    if (moment) return moment;
    throw new UnreadableCostFile(`${where}.${name} isn’t a time such as 2026-10-31T07:00:00Z. Export the file again.`);
  };
  const cost = readExactAmount(row.cost, `${where}.cost`);
  return googleLine({
    account: member("project", "id") ?? textOf(row.billing_account_id),
    start: time("usage_start_time"),
    end: textOf(row.usage_end_time) === null ? null : time("usage_end_time"),
    month: member("invoice", "month"),
    service: member("service", "description"),
    currency: textOf(row.currency) ?? "",
    amounts: [cost, ...creditAmounts(row.credits, `${where}.credits`)],
  });
}

function unknownJson(value: unknown): UnreadableCostFile {
  const names = isObject(value) ? Object.keys(value) : [];
  if (names.includes("error"))
    return new UnreadableCostFile("The file contains a provider’s error message, not costs. Export it again.");
  const shown = names.length > 0 ? ` (${names.slice(0, 8).join(", ")})` : "";
  return new UnreadableCostFile(
    `The file’s JSON isn’t from a supported export${shown}. Use ${formatNames.join(", ")}, as downloaded.`,
  );
}
