import { beforeAll, describe } from "vitest";
import { z } from "zod";

const startUrl = process.env.IDENTITY_VARIANTS_URL;

type Cases = (url: () => string) => void;

/**
 * Cases against a second server with other settings, on the same database; equal settings are one server. Where the
 * suite faces a server that it did not start, there is no second one, and no such cases.
 */
export function describeVariant(name: string, changes: Record<string, string>, cases: Cases): void {
  if (!startUrl) return;
  describe(name, () => {
    let url = "";
    beforeAll(async () => {
      const response = await fetch(startUrl, { method: "POST", body: JSON.stringify(changes) });
      const text = await response.text();
      if (!response.ok) throw new Error(text);
      url = z.object({ url: z.url() }).parse(JSON.parse(text)).url;
    });
    cases(() => url);
  });
}

/** Cases in which the server asks hosts that it has built in: they are in the suite's hands where it started the server. */
export function describeWithInternet(name: string, cases: () => void): void {
  if (startUrl) describe(name, cases);
}
