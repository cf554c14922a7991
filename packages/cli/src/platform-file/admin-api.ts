import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { Failure } from "../failure.ts";
import { readJson, sendRequest } from "../platform.ts";
import type { ServiceAccount } from "../service-account.ts";
import { type Platform, parseLivePlatform } from "./schema.ts";

/** The delays before a request is repeated that got no answer. */
const retryDelaysMs = [1_000, 5_000];
/** The longest that a rate limit makes a request wait. */
const maxWaitSeconds = 60;
/** An export of a large platform takes longer than other answers. */
const timeoutMs = 60_000;
/** The workspaces that one request for the platform may name. */
const maxWorkspaces = 100;

const problemSchema = z.object({ detail: z.string() });

const livePlatformSchema = z.object({
  /** The platform's time, in UTC to the second. */
  at: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
  platform: z.record(z.string(), z.unknown()),
  /** By the object's name in the audit log. */
  targets: z.record(
    z.string(),
    z.object({
      /** What a change of the object must name, to be refused if it has changed since. */
      version: z.string().nullable(),
      /** Changes with a model's prices, and when one begins. Only of models. */
      prices: z.string().nullish(),
      last: z.object({ by: z.string().nullable(), at: z.string(), serviceAccountId: z.string().nullable() }).nullable(),
    }),
  ),
  deletableModels: z.array(z.string()),
});
/** What a server has. `leftOut` has a sentence about each object that a file cannot state. */
export type LivePlatform = Omit<z.infer<typeof livePlatformSchema>, "platform"> & {
  platform: Platform;
  leftOut: readonly string[];
};

/** A change of the admin API. */
export interface Change {
  method: "POST" | "PATCH" | "DELETE";
  path: readonly string[];
  body: object;
  /** The Idempotency-Key. A request with the same key changes nothing. */
  key: string;
}

interface Request {
  method?: string;
  headers?: Readonly<Record<string, string>>;
  body?: string;
}

/** Calls the admin API as a service account. */
export class AdminApi {
  readonly #account: ServiceAccount;
  readonly #retryDelaysMs: readonly number[];

  constructor(account: ServiceAccount, { retryDelaysMs: delays = retryDelaysMs }: { retryDelaysMs?: number[] } = {}) {
    this.#account = account;
    this.#retryDelaysMs = delays;
  }

  /** Reads the platform, with the workspaces that have settings, and those that a file names. @throws Failure */
  async readPlatform(file?: Platform): Promise<LivePlatform> {
    const ids = (file?.workspaces ?? []).map(({ id }) => id);
    const live = await this.#readPart(ids.slice(0, maxWorkspaces));
    for (let first = maxWorkspaces; first < ids.length; first += maxWorkspaces) {
      const more = await this.#readPart(ids.slice(first, first + maxWorkspaces));
      const known = new Set(live.platform.workspaces?.map(({ id }) => id));
      live.platform.workspaces?.push(...(more.platform.workspaces ?? []).filter(({ id }) => !known.has(id)));
      live.targets = { ...more.targets, ...live.targets };
      live.leftOut = [...new Set([...live.leftOut, ...more.leftOut])];
    }
    return live;
  }

  async #readPart(workspaceIds: readonly string[]): Promise<LivePlatform> {
    const { platform, ...live } = await this.read([`platform${queryOf(workspaceIds)}`], livePlatformSchema);
    const parsed = parseLivePlatform(platform);
    if (parsed) return { ...live, ...parsed };
    throw createVersionFailure(new URL(this.#account.url), "platform");
  }

  /** @throws Failure */
  async read<Schema extends z.ZodType>(path: readonly string[], schema: Schema): Promise<z.output<Schema>> {
    const url = new URL(`${this.#account.url}/api/v1/admin/${joinPath(path)}`);
    const { status, body } = await this.#send(url, {});
    if (status !== 200) throw createFailure(url, { status, body });
    const parsed = schema.safeParse(body);
    if (parsed.success) return parsed.data;
    throw createVersionFailure(url, parsed.error.issues[0]?.path.join(".") || "all");
  }

  /** Makes a change. @throws Failure */
  async change({ method, path, body, key }: Change): Promise<void> {
    await this.call({ method, path: joinPath(path), body: JSON.stringify(body), key });
  }

  /**
   * Calls an operation by its path below /api/v1/admin.
   * @param options.body JSON
   * @returns the answer, or null without one
   * @throws Failure
   */
  async call({
    method,
    path,
    body,
    key,
  }: {
    method: string;
    path: string;
    body: string | undefined;
    key: string | undefined;
  }): Promise<unknown> {
    const root = `${this.#account.url}/api/v1/admin/`;
    const url = new URL(`${root}${path}`);
    if (!url.href.startsWith(root)) throw new Failure("refused", `${path} is not below /api/v1/admin.`);
    const headers = {
      ...(body !== undefined && { "Content-Type": "application/json" }),
      ...(key !== undefined && { "Idempotency-Key": key }),
    };
    const answer = await this.#send(url, { method, headers, ...(body !== undefined && { body }) });
    if (answer.status < 200 || answer.status > 299) throw createFailure(url, answer);
    return answer.body;
  }

  async #send(url: URL, init: Request): Promise<{ status: number; body: unknown }> {
    for (const delayMs of [...this.#retryDelaysMs, null]) {
      let waitSeconds = 0;
      try {
        const headers = { ...init.headers, Authorization: `Bearer ${await this.#account.getToken()}` };
        const response = await sendRequest(url.href, { ...init, headers, timeoutMs });
        const { status } = response;
        const body = status === 204 ? null : await readJson(response);
        if (status < 500 && status !== 429) return { status, body };
        if (delayMs === null) throw createFailure(url, { status, body });
        waitSeconds = Math.min(Number(response.headers.get("Retry-After") ?? 0) || 0, maxWaitSeconds);
      } catch (error) {
        if (delayMs === null || !(error instanceof Failure) || error.kind !== "unreachable") throw error;
      }
      await delay(Math.max(delayMs ?? 0, waitSeconds * 1000));
    }
    throw new Failure("unreachable", `Couldn’t reach ${url.host}.`);
  }
}

function joinPath([first = "", ...rest]: readonly string[]): string {
  return [first, ...rest.map(encodeURIComponent)].join("/");
}

function queryOf(workspaceIds: readonly string[]): string {
  return workspaceIds.length > 0 ? `?workspaces=${workspaceIds.join(",")}` : "";
}

function createVersionFailure({ host }: URL, place: string): Failure {
  const fault = `gave an answer that this version doesn’t understand (${place}). Use the version of its release.`;
  return new Failure("refused", `${host} ${fault}`);
}

function createFailure(url: URL, { status, body }: { status: number; body: unknown }): Failure {
  const detail = problemSchema.safeParse(body).data?.detail;
  const kind = status >= 500 || status === 429 ? "unreachable" : "refused";
  return new Failure(kind, detail ?? `${url.host} answered ${status}.`);
}
