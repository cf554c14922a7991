import type { Row } from "../report/rows.ts";
import { median, quantile, spread } from "../statistics.ts";
import type { PageMeasurements } from "./pages.ts";

/** What the pages say, beside their goals. */
export function pageRows({ page, session, switches, refreshes, signInScriptBytes }: PageMeasurements): Row[] {
  const most = (key: "identityCalls" | "dataCalls") => Math.max(...switches.map((made) => made[key]));
  const count = { unit: "", digits: 0 };
  return [
    {
      ...count,
      id: "page-identity-calls",
      what: "a signed-in page: calls of the identity backend",
      goal: { atMost: 0 },
      samples: [page.identityCalls],
      note: `${page.dataCalls} of the Data API; ${page.ownMs.length} readings of /workspaces, whole and rendered`,
    },
    {
      id: "page-own-work",
      what: "a signed-in page: our own work, median",
      goal: { atMost: 3 },
      unit: "ms",
      digits: 2,
      samples: [median(page.ownMs)],
      note:
        `p99 ${quantile(page.ownMs, 0.99).toFixed(2)}; with the Data API ${median(page.inAllMs).toFixed(2)}; ` +
        `CPU time a page ${spread(page.cpuMs, 2)}; ` +
        `/api/v1/auth/session ${median(session.ownMs).toFixed(2)}, CPU time ${spread(session.cpuMs, 2)}`,
    },
    {
      ...count,
      id: "switch-identity-calls",
      what: "an account switch: calls of the identity backend",
      goal: { atMost: 2 },
      samples: [most("identityCalls")],
      note: `${most("dataCalls")} of the Data API; ${median(switches.map(({ tookMs }) => tookMs)).toFixed(1)} ms in all`,
    },
    {
      ...count,
      id: "refreshes",
      what: `${refreshes.requests} requests with one expired token: refreshes`,
      goal: { atMost: 1 },
      // One whose requests were not all answered saved its refreshes in the wrong place.
      samples: refreshes.answered === refreshes.requests && refreshes.calls > 0 ? [refreshes.calls] : [],
      note: `${refreshes.answered} of them answered as signed in`,
    },
    {
      id: "sign-in-script",
      what: "the sign-in page's script, gzipped",
      goal: { atMost: 15 },
      unit: "KB",
      digits: 1,
      samples: [signInScriptBytes / 1_024],
    },
  ];
}
