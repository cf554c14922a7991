import { parseArgs } from "node:util";
import { readNames } from "../../../remix-app/admin/prices/source-names.ts";

export const usage = `npm run gatehouse -- prices propose --from <file or https URL> [--from <second>] [--provider <id>=<name>]… [--all]

Compares the prices of all routes with models.dev's api.json and LiteLLM's model_prices_and_context_window.json, side by
side, and prints what differs. It changes nothing: an infrastructure admin reviews and applies prices in the console, at
/admin/prices.

--from      a file, or an https URL of a public host: 8 MiB and 20 seconds at most
--provider  what the files call a provider, for ids that they do not know: eu_openai=openai. By default the kind or the
            billing name of AI_PROVIDER_<ID>_KIND and _BILLING_NAME where they are set, else the id
--all       prints prices that agree, too

Environment: SUPABASE_URL and SUPABASE_SECRET_KEY of the project; without them, the running local stack.`;

export type PricesCommand = { from: string[]; names: Map<string, string>; all: boolean };

/** Parses the command line of `npm run gatehouse -- prices`. @throws Error with the usage */
export function readPricesCommand(argv: readonly string[]): PricesCommand {
  const wrong = (message: string) => new Error(`${message}\n\n${usage}`);
  let parsed: ReturnType<typeof parse>;
  try {
    parsed = parse(argv);
  } catch (error) {
    throw wrong(error instanceof Error ? error.message : String(error));
  }
  const { positionals, values } = parsed;
  if (positionals.length !== 1 || positionals[0] !== "propose") throw wrong("Prices are only proposed: use propose.");
  const { from = [], provider = [], all = false } = values;
  if (from.length < 1 || from.length > 2) throw wrong("Give one or two price files with --from.");
  const names = readNames(provider.join(","));
  if (!names) throw wrong("--provider takes <id>=<name>, such as eu_openai=openai.");
  return { from, names, all };
}

function parse(argv: readonly string[]) {
  return parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      from: { type: "string", multiple: true },
      provider: { type: "string", multiple: true },
      all: { type: "boolean" },
    },
  });
}
