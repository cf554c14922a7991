import { watch } from "../journal.ts";
import type { Random } from "../random.ts";
import type { Tenant } from "../world.ts";
import type { Actor, Stage } from "./actor.ts";
import { errorCodeOf } from "./ai-caller.ts";
import { addressFrom, openWatchedBrowser } from "./watched-browser.ts";

/** Creates an owner who reads the workspace's usage: pages, the API's reports, and what a key can read about itself. */
export function createReader(
  stage: Stage,
  { name, tenant, random }: { name: string; tenant: Tenant; random: Random },
): Actor {
  const { journal, world } = stage;
  const { base, ai } = world.stack;
  const browser = openWatchedBrowser(journal, { actor: name, base, target: "web", address: addressFrom(random) });
  let isIn = false;
  /** The highest number of requests reported so far. The number never falls, since runs are never deleted. */
  let mostRequests = 0;

  const askGateway = (path: string) =>
    watch(
      journal,
      { actor: name, what: `GET ${path}`, target: "ai" },
      {
        call: async () => {
          const response = await fetch(`${ai}/v1${path}`, {
            headers: { authorization: `Bearer ${tenant.key}`, "x-platform-workspace-id": tenant.workspaceId },
          });
          return { status: response.status, text: await response.text() };
        },
        seen: ({ status, text }) => ({ status, code: errorCodeOf(text) }),
      },
    );

  function grows(requests: number, where: string): void {
    if (requests < mostRequests) journal.find(name, `${where} counts ${requests} requests, after ${mostRequests}`);
    mostRequests = Math.max(mostRequests, requests);
  }

  async function readKey(): Promise<void> {
    const { status, text } = await askGateway("/key");
    if (status === 200) grows((JSON.parse(text) as { spent: { requests: number } }).spent.requests, "/v1/key");
    else if (status < 500) journal.find(name, `/v1/key was answered ${status}`);
  }

  async function readUsage(): Promise<void> {
    const { status, text } = await askGateway("/usage");
    const rows = status === 200 ? (JSON.parse(text) as { rows: { requests: number }[] }).rows : null;
    if (rows) {
      grows(
        rows.reduce((sum, { requests }) => sum + requests, 0),
        "/v1/usage",
      );
    } else if (status < 500) journal.find(name, `/v1/usage was answered ${status}`);
  }

  async function readStudio(): Promise<void> {
    if (!isIn) {
      const { email, password } = tenant.owner;
      const { status } = await browser.post("/login", { email, password, returnUrl: "" });
      isIn = status < 400;
      return;
    }
    const api = `/api/v1/workspaces/${tenant.workspaceId}/ai`;
    const path = random.oneOf([
      `${api}/runs?limit=20`,
      `${api}/usage`,
      `${api}/credits`,
      `/workspaces/${tenant.workspaceId}/ai/runs`,
    ]);
    const { status } = await browser.get(path);
    if (status === 401 || status === 302) {
      journal.find(name, `the session of ${tenant.owner.id} has ended unexpectedly`);
      isIn = false;
    } else if (status >= 400 && status < 500) journal.find(name, `${path} was answered ${status}`);
    journal.count("reports");
  }

  const act = () => (random.chance(0.3) ? (tenant.app ? readUsage() : readKey()) : readStudio());
  return { name, random, act, pauseMs: [700, 2_000] };
}
