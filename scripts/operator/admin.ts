import { createClient } from "@supabase/supabase-js";
import { z } from "zod";
import { helpWhereAsked } from "../help.ts";
import { type AdminCommand, readAdminCommand, usage } from "./admins/command.ts";
import { operatorProject } from "./project.ts";

/**
 * `npm run gatehouse -- admin …`: grants and revokes access to the admin console, in the project that the environment names or,
 * by default, in the running local stack.
 */
helpWhereAsked(usage);
const { url, secretKey } = operatorProject();
const database = createClient(url, secretKey, { auth: { persistSession: false, autoRefreshToken: false } }).schema(
  "private",
);

const listed = z.array(
  z.object({ email: z.string(), reason: z.string(), createdAt: z.string(), hasAuthenticator: z.boolean() }),
);

try {
  await run(readAdminCommand(process.argv.slice(2)));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function run(command: AdminCommand): Promise<void> {
  if (command.verb === "list") {
    for (const { email, reason, createdAt, hasAuthenticator } of listed.parse(await call("list_infrastructure_admins")))
      console.log(
        `${email}, since ${createdAt.slice(0, 10)}${hasAuthenticator ? "" : ", no authenticator"}: ${reason}`,
      );
    return;
  }
  const { email, reason, verb } = command;
  const outcome = await call("set_infrastructure_admin", { account_email: email, admin: verb === "grant", reason });
  if (outcome === "no_account")
    throw new Error(`There is no account with the email ${email}: it has to sign up first.`);
  const unchanged = verb === "grant" ? "is an infrastructure admin already" : "is not an infrastructure admin";
  const changed = verb === "grant" ? "may use the console now" : "may not use the console any more";
  console.log(`${email} ${outcome === "changed" ? changed : unchanged}.`);
}

async function call(name: string, args: Record<string, unknown> = {}): Promise<unknown> {
  const { data, error } = await database.rpc(name, args);
  if (error) throw new Error(`The project did not answer (${error.code || "no connection"}). Is it running?`);
  return data;
}
