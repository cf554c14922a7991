import { parseArgs } from "node:util";
import { z } from "zod";

export type ConsoleRole = z.output<typeof role>;
/** Revoking withdraws any role, so it has none. */
export type AdminCommand =
  | { verb: "list" }
  | { verb: "set"; email: string; role: ConsoleRole | null; reason: string }
  | { verb: "unblock"; subject: { address: string } | { email: string }; reason: string };

export const usage = `npm run gatehouse -- admin list
npm run gatehouse -- admin grant <email> [--role admin|finance] [--reason <text>]
npm run gatehouse -- admin revoke <email> [--reason <text>]
npm run gatehouse -- admin unblock <address>|<email> [--reason <text>]

Infrastructure admins use the console at /admin, by an authenticator of their own. The role finance opens only the
platform's books there. Granting replaces the account's role, and revoking withdraws any. Unblocking lifts the blocks of
an IP address, or of the addresses from which an account was used lately.`;

const role = z.enum(["admin", "finance"], { error: "--role is admin or finance" });

const address = z.union([z.ipv4(), z.ipv6()]);

const reason = z.string().trim().min(1, "say why with --reason: it goes into the audit log").max(500);

/**
 * Parses the command line.
 * @throws Error with a one-sentence message for the operator
 */
export function readAdminCommand(argv: string[]): AdminCommand {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: { role: { type: "string" }, reason: { type: "string", default: "By the operator, on the command line" } },
  });
  const [verb, subject, ...more] = positionals;
  if (more.length > 0) throw new Error(`${more[0]}: one thing too many.\n\n${usage}`);
  if (verb === "list") return { verb };
  if (verb === "unblock") {
    if (values.role !== undefined) throw new Error(`unblock has no --role.\n\n${usage}`);
    return { verb, subject: readBlocked(subject), reason: read(reason, values.reason) };
  }
  if (verb !== "grant" && verb !== "revoke") throw new Error(usage);
  if (verb === "revoke" && values.role !== undefined) throw new Error(`revoke withdraws any role.\n\n${usage}`);
  return {
    verb: "set",
    email: read(z.email("name an account by its email"), subject),
    role: verb === "grant" ? read(role, values.role ?? "admin") : null,
    reason: read(reason, values.reason),
  };
}

/** Parses an IP address, also as the console shows an IPv6 network, or an account's email. */
function readBlocked(subject: string | undefined): { address: string } | { email: string } {
  const network = address.safeParse(subject?.replace(/\/64$/, ""));
  if (network.success) return { address: network.data };
  return { email: read(z.email("name an IP address, or an account by its email"), subject) };
}

function read<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Error(`${parsed.error.issues[0]?.message ?? "not valid"}.\n\n${usage}`);
}
