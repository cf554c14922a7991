import type { Row } from "../report/rows.ts";
import { median, quantile, spread } from "../statistics.ts";
import type { PageMeasurements } from "./pages.ts";
import { type Readings, roundsOf } from "./readings.ts";

/** Returns the page figures with their goals. */
export function pageRows({ pages, session, switches, refreshes, signInScriptBytes }: PageMeasurements): Row[] {
  const most = (key: "identityCalls" | "dataCalls" | "navigations") => Math.max(...switches.map((made) => made[key]));
  const count = { unit: "", digits: 0 };
  const read = pages.map(({ readings }) => readings);
  const inSwitches = (key: "tookMs" | "ownMs") => median(switches.map((made) => made[key])).toFixed(1);
  return [
    {
      ...count,
      id: "page-identity-calls",
      what: "a signed-in page: calls of the identity backend",
      goal: { atMost: 0 },
      samples: [Math.max(...read.map(({ identityCalls }) => identityCalls))],
      note:
        `of the Data API: ${pages.map(({ name, readings }) => `${name} ${readings.dataCalls}`).join(", ")}; ` +
        `${read[0]?.ownMs.length} readings of each, whole and rendered`,
    },
    ...pages.map(
      ({ id, name, readings }): Row => ({
        id: `${id}-own-work`,
        what: `a signed-in page, ${name}: our own work, median`,
        goal: { atMost: 6 },
        unit: "ms",
        digits: 2,
        samples: roundsOf(readings.ownMs).map(median),
        note: workOf(readings),
      }),
    ),
    {
      id: "session-own-work",
      what: "/api/v1/auth/session: our own work, median",
      unit: "ms",
      digits: 2,
      samples: roundsOf(session.ownMs).map(median),
      note: workOf(session),
    },
    {
      ...count,
      id: "switch-identity-calls",
      what: "an account switch: calls of the identity backend",
      goal: { atMost: 2 },
      samples: [most("identityCalls")],
      note: `${most("dataCalls")} of the Data API; ${inSwitches("tookMs")} ms in all, our own work ${inSwitches("ownMs")}`,
    },
    {
      ...count,
      id: "switch-navigations",
      what: "an account switch by its form: navigations",
      goal: { atMost: 1 },
      samples: [most("navigations")],
    },
    {
      ...count,
      id: "refreshes",
      what: `${refreshes.requests} requests with one expired token: refreshes`,
      goal: { atMost: 1 },
      // If some requests were not answered, the count of refreshes is meaningless.
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

function workOf({ ownMs, inAllMs, cpuMs }: Readings): string {
  return (
    `p99 ${quantile(ownMs, 0.99).toFixed(2)}; with the Data API ${median(inAllMs).toFixed(2)}; ` +
    `CPU time a reading ${spread(cpuMs, 2)}`
  );
}
