import { parseArgs } from "node:util";
import { z } from "zod";
import { isLoopback } from "#shared/loopback.ts";

/** Scopes that a registration may hold; the database has the same list. */
const scopes = [
  "profile",
  "workspaces:read",
  "workspaces:write",
  "studio:read",
  "workspace:session",
  "ai:use",
  "tts:use",
];
const appName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{1,39}$/, "a name is 2 to 40 of a–z, 0–9 and -, and begins with a letter")
  .refine((name) => name !== "web" && name !== "central", "web and central are the platform's own names");
const reason = z.string().trim().min(1, "say why with --reason: it goes into the audit log").max(400);

/** An origin as browsers write it: no path, no default port, https but on this machine. */
const origin = z.string().transform((text, context) => {
  const url = URL.parse(text);
  if (url && url.origin === text && /^https?:$/.test(url.protocol)) return text;
  context.addIssue({ code: "custom", message: `${text} is no whole origin, such as https://notes.example.com` });
  return z.NEVER;
});

/** What `npm run app --` is asked to do. */
export type AppCommand =
  | { verb: "list" }
  | {
      verb: "add";
      name: string;
      displayName: string;
      kind: "internal" | "external";
      origins: string[];
      scopes: string[];
      reason: string;
    }
  | { verb: "rotate-secret"; name: string; overlapSeconds: number; reason: string }
  | { verb: "enable" | "disable"; name: string; reason: string }
  | { verb: "link" | "unlink"; name: string; workspaceId: string; reason: string };

export const usage = `npm run app -- list
npm run app -- add <name> --display-name <text> --origin <https://…> [--origin …] [--kind internal|external] [--scope …] --reason <text>
npm run app -- rotate-secret <name> [--overlap <seconds, 0–86400>] --reason <text>
npm run app -- enable|disable <name> --reason <text>
npm run app -- link|unlink <name> --workspace <id> --reason <text>

Scopes: ${scopes.join(", ")}. The last three are for external apps.`;

/**
 * Reads the command line.
 * @param options.development whether origins of this machine may be registered
 * @throws Error in one sentence for people
 */
export function readAppCommand(argv: string[], { development }: { development: boolean }): AppCommand {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: {
      "display-name": { type: "string" },
      kind: { type: "string" },
      origin: { type: "string", multiple: true },
      overlap: { type: "string" },
      reason: { type: "string" },
      scope: { type: "string", multiple: true },
      workspace: { type: "string" },
    },
  });
  const [verb, name, ...more] = positionals;
  if (more.length > 0) throw new Error(`${more[0]}: one thing too many.\n\n${usage}`);
  if (verb === "list") return { verb };
  if (verb === undefined) throw new Error(usage);
  const common = { name: read(appName, name ?? ""), reason: read(reason, values.reason ?? "") };
  switch (verb) {
    case "add": {
      const origins = read(z.array(origin).min(1, "name an --origin"), values.origin ?? []);
      const local = origins.find((one) => isLoopback(new URL(one).hostname));
      if (local && !development) throw new Error(`${local} is of this machine: registered in development only.`);
      return {
        verb,
        ...common,
        displayName: read(
          z.string().trim().min(1, "name it with --display-name").max(80),
          values["display-name"] ?? "",
        ),
        kind: read(z.enum(["internal", "external"]), values.kind ?? "internal"),
        origins,
        scopes: read(z.array(z.enum(scopes)), values.scope ?? ["profile"]),
      };
    }
    case "rotate-secret":
      return {
        verb,
        ...common,
        overlapSeconds: read(z.coerce.number().int().min(0).max(86_400), values.overlap ?? "0"),
      };
    case "enable":
    case "disable":
      return { verb, ...common };
    case "link":
    case "unlink":
      return { verb, ...common, workspaceId: read(z.uuid("name a --workspace by its id"), values.workspace) };
    default:
      throw new Error(usage);
  }
}

function read<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Error(`${parsed.error.issues[0]?.message ?? "not valid"}.\n\n${usage}`);
}
