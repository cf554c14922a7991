import { readFile, stat } from "node:fs/promises";
import { createClient } from "@supabase/supabase-js";
import { downloadPrices } from "../../remix-app/admin/prices/download.ts";
import { proposePrices, routePricesSchema } from "../../remix-app/admin/prices/proposal.ts";
import { maxSourceBytes, maxSourceSizeText, readPriceSources } from "../../remix-app/admin/prices/read-source.ts";
import { namesFromSettings } from "../../remix-app/admin/prices/source-names.ts";
import { helpWhereAsked } from "../help.ts";
import { type PricesCommand, readPricesCommand, usage } from "./prices/command.ts";
import { proposalText } from "./prices/table.ts";
import { operatorProject } from "./project.ts";

/** `npm run gatehouse -- prices propose`: compares the price book with public price files. Changes nothing. */
helpWhereAsked(usage);
try {
  console.log(await propose(readPricesCommand(process.argv.slice(2))));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function propose({ from, names, all }: PricesCommand): Promise<string> {
  const { url, secretKey } = operatorProject();
  const files = await Promise.all(from.map(async (place) => ({ from: place, text: await read(place) })));
  const database = createClient(url, secretKey, { auth: { persistSession: false, autoRefreshToken: false } });
  const { data, error } = await database.schema("private").rpc("list_route_prices");
  if (error) throw new Error(`The project did not answer (${error.code || "no connection"}). Is it running?`);
  const routes = routePricesSchema.parse(data);
  const sources = readPriceSources(files, routes);
  const known = new Map([...namesFromSettings(process.env), ...names]);
  return proposalText(proposePrices(routes, { sources, names: known }), { all });
}

async function read(place: string): Promise<string> {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(place)) return downloadPrices(place);
  const { size } = await stat(place).catch(() => {
    throw new Error(`${place} cannot be read. Give a file, or a URL that begins with https://.`);
  });
  if (size > maxSourceBytes) throw new Error(`${place} has more than ${maxSourceSizeText}: this isn’t a price file.`);
  return readFile(place, "utf8");
}
