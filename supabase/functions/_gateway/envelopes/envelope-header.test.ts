import { expect, test } from "vitest";
import type { GatewayError } from "../http/errors.ts";
import { readEnvelope } from "./envelope-header.ts";

const read = (text: string) => readEnvelope(new Headers({ "x-platform-envelope": text }));

test.for<[string, object, number]>([
  ["usd=5", { usd: "5" }, 0],
  ["usd=5; calls=200; ttl=3600; wait=600", { usd: "5", calls: 200, ttl_seconds: 3_600 }, 600],
  ["wait=600;ttl=3600;calls=200;usd=5", { usd: "5", calls: 200, ttl_seconds: 3_600 }, 600],
  ["  USD = 0.50 ;\tCalls=1", { usd: "0.5", calls: 1 }, 0],
  ["usd=0.000000000001", { usd: "0.000000000001" }, 0],
  ["usd=05.10; wait=0", { usd: "5.1" }, 0],
  ["usd=1; calls=1000000000; ttl=31622400", { usd: "1", calls: 1_000_000_000, ttl_seconds: 31_622_400 }, 0],
])("reads the header %j", ([text, envelope, waitSeconds]) => {
  expect(read(text)).toEqual({ envelope, waitSeconds });
});

test("returns nothing for a call without the header", () => {
  expect(readEnvelope(new Headers())).toBeUndefined();
});

test.for([
  ["", "has the invalid member “”"],
  ["5", "has the invalid member “5”"],
  ["usd=5;", "has the invalid member “”"],
  ["usd=5, usd=5", "has the invalid member “usd=5, usd=5”"],
  ["usd=5; USD=5", "has usd twice"],
  ["usd=-5", "has the invalid member “usd=-5”"],
  ["usd=$5", "has the invalid member “usd=$5”"],
  ["usd=1e3", "has the invalid member “usd=1e3”"],
  ['usd="5"', 'has the invalid member “usd="5"”'],
  ["usd=0", "needs usd: an amount above 0 with at most 12 decimals"],
  ["usd=0.000", "needs usd: an amount above 0 with at most 12 decimals"],
  ["usd=0.0000000000001", "needs usd: an amount above 0 with at most 12 decimals"],
  ["usd=1234567890123", "needs usd: an amount above 0 with at most 12 decimals"],
  ["calls=5", "needs usd: an amount above 0 with at most 12 decimals"],
  ["usd=5; calls=0", "allows calls from 1 to 1000000000"],
  ["usd=5; calls=1.5", "allows calls from 1 to 1000000000"],
  ["usd=5; calls=1000000001", "allows calls from 1 to 1000000000"],
  ["usd=5; ttl=0", "allows ttl from 1 to 31622400"],
  ["usd=5; ttl=31622401", "allows ttl from 1 to 31622400"],
  ["usd=5; wait=601", "allows wait from 0 to 600"],
  ["usd=5; limit=5", "has the unknown member limit"],
] as const)("refuses the header %j and shows the right form", ([text, fault]) => {
  expect(() => read(text)).toThrow(
    expect.objectContaining({
      code: "invalid_request",
      message: `The header X-Platform-Envelope ${fault}. Write it as X-Platform-Envelope: usd=5; calls=200; ttl=3600; wait=600. Only usd is required.`,
      options: expect.objectContaining({ param: "X-Platform-Envelope" }),
    } satisfies Partial<Record<keyof GatewayError, unknown>>),
  );
});
