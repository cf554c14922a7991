import { parseArgs } from "node:util";
import { z } from "zod";
import { isNetworkAddress } from "../../../remix-app/http/network-address.ts";
import { platformScopes } from "../../../remix-app/machines/scopes.ts";

export interface ServiceAccountCommand {
  verb: "add";
  name: string;
  scopes: string[];
  allowedAddresses: string[];
  /** In RFC 3339. */
  expiresAt: string;
  /** The file with the public key; null for a secret. */
  keyFile: string | null;
  reason: string;
}

const defaultDays = 90;
const dayMs = 86_400_000;

export const usage = `npm run gatehouse -- service-account add <name> --scope <scope> [--scope …] [--key <file>]
  [--address <address or network> …] [--days 1–365] [--reason <text>]

Creates a service account of the platform, for a program that uses the API without a person. --key names a file with the
public key (a JWK). Without it, the command prints a secret, this once. --days is how long the account works, by default
${defaultDays}. Everything else is in the console at /admin/service-accounts.

Scopes: ${platformScopes.join(", ")}`;

const name = z.string().trim().min(1, "name the service account").max(100);
const scopes = z.array(z.enum(platformScopes, "--scope is one of the scopes below")).min(1, "name a --scope");
const addresses = z
  .array(z.string().refine(isNetworkAddress, "--address is an IP address or a network, such as 192.0.2.0/24"))
  .max(50, "at most 50 addresses");
const days = z.coerce.number().int().min(1, "--days is 1 to 365").max(365, "--days is 1 to 365");
const reason = z.string().trim().min(1, "say why with --reason: it goes into the audit log").max(500);

/**
 * Parses the command line.
 * @throws Error with a one-sentence message for the operator
 */
export function readServiceAccountCommand(
  argv: string[],
  { now = Date.now() }: { now?: number } = {},
): ServiceAccountCommand {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: {
      scope: { type: "string", multiple: true },
      key: { type: "string" },
      address: { type: "string", multiple: true },
      days: { type: "string", default: String(defaultDays) },
      reason: { type: "string", default: "By the operator, on the command line" },
    },
  });
  const [verb, accountName, ...more] = positionals;
  if (more.length > 0) throw new Error(`${more[0]}: one thing too many.\n\n${usage}`);
  if (verb !== "add") throw new Error(usage);
  return {
    verb,
    name: read(name, accountName ?? ""),
    scopes: [...new Set(read(scopes, values.scope ?? []))],
    allowedAddresses: read(addresses, values.address ?? []),
    expiresAt: new Date(now + read(days, values.days) * dayMs).toISOString(),
    keyFile: values.key ?? null,
    reason: read(reason, values.reason),
  };
}

function read<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Error(`${parsed.error.issues[0]?.message ?? "not valid"}.\n\n${usage}`);
}
