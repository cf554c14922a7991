import { parseArgs } from "node:util";
import { z } from "zod";
import { rateSchema } from "../../../remix-app/studio/costs/files/import-document.ts";

export const usage = `npm run gatehouse -- import-costs <file> [<file> …] (--workspace <id> --app <id> | --platform)
  [--provider <name>] [--account <id>] [--service <name>]… [--rate <currency>=<USD>]… [--clear] [--yes]

Imports a provider's bill into the books of a workspace's app, or of the platform: a total for each account and day. It
reads CSV and JSON files, also as .gz, of OpenAI, Anthropic, AWS, Google Cloud, Azure and FOCUS 1.x, and shows what they
contain and change before it asks to store it. Parts of one report belong in one import: name all of its files.

--workspace the workspace's id, as in the address of its pages
--app       the id of an app that is linked to the workspace, as in the address of its page in the console
--platform  the platform's own books, for bills that cover all workspaces
--provider  the provider's name in imported costs; by default what the file suggests. Of a file with several providers,
            the one to import, also with another name: aws=bedrock
--account   the account of lines that name none; by default "default"
--service   only this service of the bill, as the preview writes it; may be given several times
--rate      USD for one unit of another currency, such as EUR=1.08
--clear     sets imported days of this time to 0 that the file lacks, as of a wrong account or a service left out
--yes       stores without asking

Environment: SUPABASE_URL and SUPABASE_SECRET_KEY of the project; without them, the running local stack.`;

export type CostFileOptions = {
  files: string[];
  /** The workspace and the app that the bill belongs to; null for a bill of the platform. */
  book: { workspace: string; app: string } | null;
  /** The provider's name in the file (`source`) and in imported costs (`name`). */
  provider: { source: string; name: string } | undefined;
  account: string;
  services: string[];
  rates: Record<string, string>;
  /** Whether to set imported days to 0 if the file lacks them. */
  clear: boolean;
  yes: boolean;
};

const id = z.uuid();
const label = /^[A-Za-z0-9._:-]{1,128}$/;

/** Parses the command line. @throws Error with the usage */
export function readCostFileOptions(argv: readonly string[]): CostFileOptions {
  const wrong = (message: string) => new Error(`${message}\n\n${usage}`);
  let parsed: ReturnType<typeof parse>;
  try {
    parsed = parse(argv);
  } catch (error) {
    throw wrong(error instanceof Error ? error.message : String(error));
  }
  const { positionals: files, values } = parsed;
  const {
    workspace,
    app,
    platform = false,
    provider,
    account = "default",
    service = [],
    rate = [],
    clear = false,
    yes = false,
  } = values;
  if (files.length === 0) throw wrong("Name the file to import.");
  if (platform === (workspace !== undefined || app !== undefined)) {
    throw wrong("Choose where to import: either --workspace and --app, or --platform.");
  }
  if (!platform && !(id.safeParse(workspace).success && id.safeParse(app).success)) {
    throw wrong("--workspace and --app take the ids of a workspace and of an app that is linked to it.");
  }
  const [source = "", name = source, ...more] = provider?.split("=") ?? [];
  if (provider !== undefined && !(label.test(source) && label.test(name) && more.length === 0)) {
    throw wrong("--provider takes a name of letters, digits and . _ : -, or two with = between them.");
  }
  if (account.trim() !== account || account === "") throw wrong("--account takes an id without spaces at its ends.");
  return {
    files,
    book: workspace && app ? { workspace, app } : null,
    provider: provider === undefined ? undefined : { source: source.toLowerCase(), name: name.toLowerCase() },
    account,
    services: service,
    rates: Object.fromEntries(
      rate.map(
        (text) => readRate(text) ?? fail(wrong(`--rate takes a currency and its USD, such as EUR=1.08, not ${text}.`)),
      ),
    ),
    clear,
    yes,
  };
}

function readRate(text: string): [string, string] | undefined {
  const [, currency = "", rate] = /^([A-Za-z]{3})=(.*)$/.exec(text) ?? [];
  const parsed = rateSchema.safeParse(rate);
  return parsed.success ? [currency.toUpperCase(), parsed.data] : undefined;
}

function fail(error: Error): never {
  throw error;
}

function parse(argv: readonly string[]) {
  return parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      workspace: { type: "string" },
      app: { type: "string" },
      platform: { type: "boolean" },
      provider: { type: "string" },
      account: { type: "string" },
      service: { type: "string", multiple: true },
      rate: { type: "string", multiple: true },
      clear: { type: "boolean" },
      yes: { type: "boolean" },
    },
  });
}
