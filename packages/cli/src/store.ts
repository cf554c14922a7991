import { rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { type Tool, tools } from "./arguments.ts";
import { makePrivateFolder, readText, writeText } from "./private-files.ts";

const login = z.object({
  url: z.string(),
  clientId: z.string(),
  account: z.string(),
  accessToken: z.string(),
  /** Milliseconds since 1970. */
  accessExpiresAt: z.number(),
  refreshToken: z.string(),
});
/** A sign-in, with its tokens. */
export type Login = z.infer<typeof login>;

const connection = z.object({
  /** The platform's URL, from the login that made the connection. */
  url: z.string(),
  workspaceId: z.string(),
  workspaceName: z.string(),
  connectionId: z.string(),
  gatewayUrl: z.string(),
  /** Milliseconds since 1970. */
  keyExpiresAt: z.number(),
  /**
   * The agent's configuration file, and how to undo the command's changes to the file. Null until the command has
   * changed the file.
   */
  configuration: z.object({ file: z.string(), undo: z.unknown() }).nullable(),
});
/** An agent that the command has configured. Its key is in a separate file. */
export type Connection = z.infer<typeof connection>;

const connections = z.partialRecord(z.enum(tools), connection);
export type Connections = z.infer<typeof connections>;

/** The command's files: `login.json`, `connections.json` and one key for each agent. Only their owner can read them. */
export class Store {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  readLogin(): Promise<Login | null> {
    return this.#read("login.json", login);
  }

  writeLogin(value: Login): Promise<void> {
    return this.#write("login.json", JSON.stringify(value));
  }

  async deleteLogin(): Promise<void> {
    await rm(join(this.folder, "login.json"), { force: true });
    await Promise.all(tools.map((tool) => this.deleteKey(tool)));
  }

  async readConnections(): Promise<Connections> {
    return (await this.#read("connections.json", connections)) ?? {};
  }

  async writeConnection(tool: Tool, value: Connection | null): Promise<void> {
    const { [tool]: _, ...others } = await this.readConnections();
    await this.#write("connections.json", JSON.stringify(value ? { ...others, [tool]: value } : others));
  }

  keyFile(tool: Tool): string {
    return join(this.folder, `${tool}.key`);
  }

  async readKey(tool: Tool): Promise<string | null> {
    return (await readText(this.keyFile(tool)))?.trim() || null;
  }

  writeKey(tool: Tool, key: string): Promise<void> {
    return this.#write(`${tool}.key`, key);
  }

  async deleteKey(tool: Tool): Promise<void> {
    await rm(this.keyFile(tool), { force: true });
  }

  /** Treats a file that does not parse as absent, since the command then writes it again. */
  async #read<Schema extends z.ZodType>(name: string, schema: Schema): Promise<z.output<Schema> | null> {
    const text = await readText(join(this.folder, name));
    if (text === null) return null;
    try {
      return schema.safeParse(JSON.parse(text)).data ?? null;
    } catch {
      return null;
    }
  }

  async #write(name: string, text: string): Promise<void> {
    await makePrivateFolder(this.folder);
    await writeText(join(this.folder, name), `${text}\n`, { mode: 0o600 });
  }
}
