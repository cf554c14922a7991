import { readFileSync } from "node:fs";
import { createClient } from "@supabase/supabase-js";
import { z } from "zod";
import { hashToBytea, newOpaqueToken } from "../../remix-app/apps/opaque-tokens.ts";
import { parsePublicKey } from "../../remix-app/machines/assertion-key.ts";
import { helpWhereAsked } from "../help.ts";
import { operatorProject } from "./project.ts";
import { readServiceAccountCommand, type ServiceAccountCommand, usage } from "./service-accounts/command.ts";

/**
 * `npm run gatehouse -- service-account …`: creates service accounts of the platform, in the project that the
 * environment names or, by default, in the running local stack. A secret is printed once, when it is created.
 */
helpWhereAsked(usage);
const { url, secretKey } = operatorProject();
const database = createClient(url, secretKey, { auth: { persistSession: false, autoRefreshToken: false } }).schema(
  "private",
);

const answer = z.object({ refused: z.string().optional(), clientId: z.string().optional() });

const refusals: Record<string, string> = {
  taken: "The platform has a service account of that name.",
  too_many: "The platform has 100 service accounts. Revoke some in the console first.",
};

try {
  await add(readServiceAccountCommand(process.argv.slice(2)));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function add({ keyFile, verb: _, ...account }: ServiceAccountCommand): Promise<void> {
  const secret = newOpaqueToken("");
  const credential = keyFile === null ? { secretHash: hashToBytea(secret) } : { publicJwk: await readKey(keyFile) };
  const change = { ...account, account: null, version: null, workspace: null, enabled: true, ...credential };
  const { data, error } = await database.rpc("save_service_account", { change });
  if (error) throw new Error(`The project did not answer (${error.code || "no connection"}). Is it running?`);
  const { refused, clientId } = answer.parse(data);
  if (refused !== undefined) throw new Error(refusals[refused] ?? `The project refused this: ${refused}.`);
  console.log(`${account.name} works until ${account.expiresAt.slice(0, 10)}.\n\n  client_id=${clientId}`);
  if (keyFile === null) console.log(`  client_secret=${secret}\n\nThe secret is shown this once.`);
}

async function readKey(file: string): Promise<object> {
  const parsed = await parsePublicKey(readFileSync(file, "utf8"));
  if ("fault" in parsed) throw new Error(`${file}: ${parsed.fault}.`);
  return parsed.key;
}
