import { createReadStream, statSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { createClient } from "@supabase/supabase-js";
import { z } from "zod";
import { changedDays, importAnswer, previewAnswer } from "../../remix-app/studio/costs/cost-import/import-answers.ts";
import type { CostFile, ProviderCosts } from "../../remix-app/studio/costs/files/cost-file.ts";
import {
  costImportDocument,
  currenciesToConvert,
  serviceTotals,
} from "../../remix-app/studio/costs/files/import-document.ts";
import { readCostFiles } from "../../remix-app/studio/costs/files/read-cost-file.ts";
import { helpWhereAsked } from "../help.ts";
import { createProgress } from "../load/progress.ts";
import { operatorProject } from "./project.ts";
import { type CostFileOptions, readCostFileOptions, usage } from "./provider-costs/cost-file-options.ts";
import { fileText, previewText } from "./provider-costs/cost-file-preview.ts";

/**
 * `npm run gatehouse -- import-costs <file>`: imports a provider's cost files into the project that the environment
 * names, or else into the local stack.
 */
helpWhereAsked(usage);
const shownBytes = 64 * 1024 * 1024;
const refused = z.object({ outcome: z.literal("app_not_linked") });
try {
  await importCosts(readCostFileOptions(process.argv.slice(2)));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function importCosts(options: CostFileOptions): Promise<void> {
  const missingFile = options.files.find((path) => !statSync(path, { throwIfNoEntry: false })?.isFile());
  if (missingFile) throw new Error(`${missingFile} is not a file. Give the path of the provider's export.`);
  const file = await readCostFiles(
    options.files.map((path) => ({ bytes: readWithProgress(path), fileName: path })),
    { provider: options.provider?.source },
  );
  const costs = onlyProvider(file);
  console.log(`${fileText(file, costs)}\n`);
  const services = servicesToImport(costs, options.services);
  const missing = currenciesToConvert(costs, services).find((currency) => !(currency in options.rates));
  if (missing)
    throw new Error(
      `The bill has amounts in ${missing}. Add the USD for 1 ${missing}, such as --rate ${missing}=1.08.`,
    );
  const { account, rates, book, clear } = options;
  const document = costImportDocument(file, costs, {
    provider: options.provider?.name,
    account,
    services,
    rates,
    clear,
  });
  const project = operatorProject();
  const database = createClient(project.url, project.secretKey, {
    auth: { persistSession: false, autoRefreshToken: false },
  }).schema("private");
  const call = async (name: string, args: object = {}): Promise<unknown> => {
    const where = { workspace: book?.workspace ?? null, app: book?.app ?? null, document };
    const { data, error, status } = await database.rpc(name, { ...where, ...args });
    if (status === 401)
      throw new Error("The project refused SUPABASE_SECRET_KEY. Check that it belongs to SUPABASE_URL.");
    if (error) throw new Error(`The project did not answer (${error.code || "no connection"}). Is it running?`);
    if (refused.safeParse(data).success) throw new Error("The app is not linked to the workspace: check both ids.");
    return data;
  };
  const preview = previewAnswer.parse(await call("preview_costs_as_operator"));
  if (preview.outcome === "invalid") throw new Error(preview.message);
  console.log(previewText(document, preview));
  if (changedDays(preview) === 0) {
    console.log("Nothing to import: all days have been imported already.");
    return;
  }
  if (!options.yes && !(await isConfirmed())) {
    console.log("Nothing was imported.");
    return;
  }
  const answer = importAnswer.parse(await call("import_costs_as_operator", { state: preview.state }));
  if (answer.outcome === "invalid") throw new Error(answer.message);
  if (answer.outcome === "changed") {
    throw new Error("The books changed since the preview, and nothing was imported. Run the command again.");
  }
  if (answer.outcome === "month_closed") {
    const months = answer.months.join(", ");
    throw new Error(`${months} is closed, and nothing was imported. Reopen it in the console under Books.`);
  }
  const cleared = answer.cleared > 0 ? ` ${answer.cleared} set to 0.` : "";
  console.log(
    `Imported: ${answer.added} new, ${answer.corrected} corrected, ${answer.unchanged} unchanged days.${cleared}`,
  );
}

/** Shows progress for files that take more than a few seconds. */
async function* readWithProgress(path: string): AsyncGenerator<Uint8Array> {
  const total = statSync(path).size;
  const show = total < shownBytes ? () => {} : createProgress({ label: `${path}: bytes`, total }, process.stderr);
  let done = 0;
  for await (const part of createReadStream(path) as AsyncIterable<Uint8Array>) {
    yield part;
    done += part.length;
    show(done);
  }
}

function onlyProvider({ providers }: CostFile): ProviderCosts {
  const [only, ...others] = providers;
  if (only && others.length === 0) return only;
  const names = providers.map(({ provider }) => provider).join(", ");
  throw new Error(`The file has costs of several providers (${names}): name one with --provider.`);
}

function servicesToImport(costs: ProviderCosts, names: readonly string[]): Set<string | null> | undefined {
  if (names.length === 0) return undefined;
  const known = serviceTotals(costs).map(({ service }) => service);
  return new Set(
    names.map((name) => {
      const service = known.find((one) => one?.toLowerCase() === name.toLowerCase());
      if (service === undefined) throw new Error(`The bill has no service named ${name}.`);
      return service;
    }),
  );
}

async function isConfirmed(): Promise<boolean> {
  if (!process.stdin.isTTY) {
    console.log("Add --yes to import it.");
    return false;
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await terminal.question("Import this? (yes/no) ");
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}
