import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Failure } from "./failure.ts";
import { AdminApi } from "./platform-file/admin-api.ts";
import { readServiceAccount } from "./service-account.ts";

export const apiMethods = ["GET", "POST", "PATCH", "DELETE"] as const;

export interface ApiCommand {
  verb: "api";
  method: (typeof apiMethods)[number];
  /** Below /api/v1/admin, with a query. */
  path: string;
  /** The file with the body, which is JSON. */
  input: string | undefined;
}

/**
 * Calls an operation of the admin API, as the service account of the environment.
 * @param print prints a line, with escapes for invisible characters
 * @throws Failure
 */
export async function runApiCommand({ method, path, input }: ApiCommand, print: (line: string) => void): Promise<void> {
  const body = input === undefined ? undefined : await readBody(input);
  const api = new AdminApi(await readServiceAccount(process.env));
  // The same key for each repetition of this request.
  const key = method === "GET" ? undefined : randomUUID();
  const answer = await api.call({ method, path, body, key });
  if (answer !== null) for (const line of JSON.stringify(answer, null, 2).split("\n")) print(line);
}

async function readBody(file: string): Promise<string> {
  const text = await readFile(file, "utf8").catch(() => null);
  if (text === null) throw new Failure("configuration", `There is no file ${file}.`);
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    throw new Failure("configuration", `${file} is not JSON.`);
  }
}
