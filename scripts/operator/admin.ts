import { createClient } from "@supabase/supabase-js";
import { z } from "zod";
import { helpWhereAsked } from "../help.ts";
import { type AdminCommand, type ConsoleRole, readAdminCommand, usage } from "./admins/command.ts";
import { operatorProject } from "./project.ts";

/**
 * `npm run gatehouse -- admin …`: grants and revokes the roles of the admin console and lifts blocks of IP addresses, in
 * the project that the environment names or, by default, in the running local stack.
 */
helpWhereAsked(usage);
const { url, secretKey } = operatorProject();
const database = createClient(url, secretKey, { auth: { persistSession: false, autoRefreshToken: false } }).schema(
  "private",
);

const listed = z.array(
  z.object({
    email: z.string(),
    role: z.string(),
    reason: z.string(),
    createdAt: z.string(),
    hasAuthenticator: z.boolean(),
  }),
);

/** The platform's service accounts that a person created or added a credential to. */
const leftAccounts = z.array(z.object({ id: z.string(), name: z.string() }));

/** The networks whose blocks were lifted; null if the account doesn't exist. */
const lifted = z.array(z.string()).nullable();

const outcomes: Record<ConsoleRole | "none", { changed: string; unchanged: string }> = {
  admin: { changed: "may use the console now", unchanged: "is an infrastructure admin already" },
  finance: { changed: "may use the platform's books now", unchanged: "has the role finance already" },
  none: { changed: "may not use the console any more", unchanged: "has no role in the console" },
};

try {
  await run(readAdminCommand(process.argv.slice(2)));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function run(command: AdminCommand): Promise<void> {
  if (command.verb === "list") {
    for (const { email, role, reason, createdAt, hasAuthenticator } of listed.parse(await call("list_console_people")))
      console.log(
        `${email}, ${role} since ${createdAt.slice(0, 10)}${hasAuthenticator ? "" : ", no authenticator"}: ${reason}`,
      );
    return;
  }
  if (command.verb === "unblock") {
    console.log(await unblock(command));
    return;
  }
  const { email, role, reason } = command;
  const outcome = await call("set_console_role", { account_email: email, role, reason });
  if (outcome === "no_account")
    throw new Error(`There is no account with the email ${email}: it has to sign up first.`);
  if (outcome === "deletion_scheduled")
    throw new Error(`The account ${email} is about to be deleted: cancel its deletion in the console first.`);
  const { changed, unchanged } = outcomes[role ?? "none"];
  console.log(`${email} ${outcome === "changed" ? changed : unchanged}.`);
  if (role !== null) return;
  for (const { id, name } of leftAccounts.parse(await call("service_accounts_of_person", { account_email: email })))
    console.log(
      `They may hold a secret of the service account ${name} (${id}): rotate its secret, remove their keys, or revoke it.`,
    );
}

async function unblock({ subject, reason }: Extract<AdminCommand, { verb: "unblock" }>): Promise<string> {
  const args = "address" in subject ? { of_address: subject.address } : { account_email: subject.email };
  const networks = lifted.parse(await call("unblock_address", { ...args, reason }));
  if (networks === null) throw new Error("There is no account with this email.");
  if (networks.length > 0) return `${networks.join(", ")}: not blocked any more.`;
  return "address" in subject
    ? `${subject.address} is not blocked.`
    : `No address from which ${subject.email} was used lately is blocked.`;
}

async function call(name: string, args: Record<string, unknown> = {}): Promise<unknown> {
  const { data, error } = await database.rpc(name, args);
  if (error) throw new Error(`The project did not answer (${error.code || "no connection"}). Is it running?`);
  return data;
}
