import { createHash } from "node:crypto";
import { collectCosts } from "./collect-costs.ts";
import { type CostFile, type ProviderCosts, UnreadableCostFile } from "./cost-file.ts";
import { type FileBytes, readText } from "./read-bytes.ts";
import { readCsv } from "./read-csv.ts";
import { jsonReader } from "./read-json.ts";

export type CostFileInput = { bytes: FileBytes; fileName: string };

export type ReadOptions = {
  /** The provider's name in imported costs. If the file has several providers, only this one is imported. */
  provider?: string | undefined;
  /** The account to use for lines that name no account. */
  account?: string | undefined;
  /** The maximum size of a file when unpacked. */
  maxBytes?: number | undefined;
};

/** Matches file names that Azure, AWS and BigQuery give to the parts of a split report. */
const partName = /(?:^|[_/-])part[_-]?\d+[_-]\d+|-\d{5}\.(?:snappy\.)?csv|\d{12}\.(?:csv|json)/i;

/**
 * Reads a provider's cost file, which is CSV or JSON and may be gzipped. Detects the format from the contents.
 * @throws UnreadableCostFile
 */
export function readCostFile(
  bytes: FileBytes,
  { fileName, ...options }: ReadOptions & { fileName: string },
): Promise<CostFile> {
  return readCostFiles([{ bytes, fileName }], options);
}

/**
 * Reads the parts of a report as one file. Importing a day replaces what was stored for that day, so all parts of a day
 * must be imported together.
 * @throws UnreadableCostFile
 */
export async function readCostFiles(files: readonly CostFileInput[], options: ReadOptions = {}): Promise<CostFile> {
  const { provider, account, maxBytes = Number.POSITIVE_INFINITY } = options;
  const costs = collectCosts({ account });
  const json = jsonReader();
  const notes = new Set<string>();
  const hashes: string[] = [];
  /** For formats that report whole days, maps each day, account and service to the file that contains them. */
  const dayFiles = new Map<string, string>();
  let format: { id: string; name: string; hasWholeDays?: true } | undefined;
  for (const { bytes, fileName } of files) {
    const named = files.length > 1 ? `${fileName}: ` : "";
    try {
      let endNotes = (): string[] => [];
      const found = (own: NonNullable<typeof format> & { notes?: () => string[] }) => {
        if (format && format.id !== own.id) {
          throw new UnreadableCostFile(
            `This is ${own.name}, but other files are ${format.name}. Import them separately.`,
          );
        }
        format = own;
        endNotes = own.notes ?? endNotes;
      };
      const { head, text, sha256 } = await readText(bytes, { maxBytes });
      const isJson = /^[\s\ufeff]*[[{]/.test(head);
      for await (const { read, where } of isJson ? json.read(text, found) : readCsv({ head, text }, found)) {
        if (format?.hasWholeDays && files.length > 1 && !("skipped" in read)) {
          const key = JSON.stringify([read.day, read.account, read.service]);
          const other = dayFiles.get(key) ?? fileName;
          if (other !== fileName) {
            throw new UnreadableCostFile(
              `${where}: ${read.day} is also in ${other}, so it would count twice. Import the files separately.`,
            );
          }
          dayFiles.set(key, fileName);
        }
        costs.add(read, where);
      }
      for (const note of endNotes()) notes.add(named + note);
      const hash = sha256();
      const same = files[hashes.indexOf(hash)];
      if (same) throw new UnreadableCostFile(`This is the same file as ${same.fileName}. List it only once.`);
      hashes.push(hash);
    } catch (error) {
      throw error instanceof UnreadableCostFile && named ? new UnreadableCostFile(named + error.message) : error;
    }
  }
  for (const note of [...json.end(), ...costs.notes()]) notes.add(note);
  const [first] = files;
  if (files.length === 1 && first && partName.test(first.fileName)) {
    notes.add("The report may have more parts. Import them together: a day’s total replaces the one imported before.");
  }
  const providers = selectProviders(costs.providers(), provider);
  if (!format || !first || providers.length === 0) {
    throw new UnreadableCostFile("The file has a header but no costs. Export a range that has costs.");
  }
  return {
    format: format.id,
    formatName: format.name,
    providers,
    skipped: costs.skipped(),
    notes: [...notes],
    rows: costs.rows,
    fileName: shortName(first.fileName) + (files.length > 1 ? ` and ${files.length - 1} more` : ""),
    sha256: hashes.length === 1 ? (hashes[0] ?? "") : createHash("sha256").update(hashes.join("")).digest("hex"),
  };
}

function selectProviders(providers: ProviderCosts[], name: string | undefined): ProviderCosts[] {
  if (name === undefined || providers.length === 0) return providers;
  const lower = name.toLowerCase();
  const [only, ...others] = providers;
  if (only && others.length === 0) return [{ ...only, provider: lower }];
  const own = providers.filter(({ provider }) => provider === lower);
  if (own.length > 0) return own;
  const names = providers.map(({ provider }) => provider).join(", ");
  throw new UnreadableCostFile(
    `The file has costs of several providers (${names}), but none for ${lower}. Choose one of these.`,
  );
}

/** Returns a file's name without folders, cut to the database's maximum length. */
function shortName(fileName: string): string {
  const name = fileName.replace(/^.*[\\/]/, "").replace(/\p{Cc}/gu, "");
  return [...name.toWellFormed()].slice(0, 200).join("") || "costs";
}
