import { describe, expect, test } from "vitest";
import { visitorPlace } from "./visitor-place.ts";

const names = { city: "x-city", country: "x-country" };
const place = (headers: Record<string, string>, configured = names) => visitorPlace(new Headers(headers), configured);

describe("a visitor's place", () => {
  test("a visitor's place combines the city and the country code that Cloudflare sends", () => {
    // https://developers.cloudflare.com/rules/transform/managed-transforms/reference/#add-visitor-location-headers
    expect(place({ "x-city": "Porto", "x-country": "PT" })).toBe("Porto, Portugal");
    const latin1 = Buffer.from("São Paulo", "utf8").toString("latin1");
    expect(place({ "x-city": latin1, "x-country": "BR" })).toBe("São Paulo, Brazil");
  });

  test("decodes a percent-encoded city, as Vercel sends it", () => {
    // https://vercel.com/docs/headers/request-headers#x-vercel-ip-city
    expect(place({ "x-city": "S%C3%A3o%20Paulo", "x-country": "BR" })).toBe("São Paulo, Brazil");
    expect(place({ "x-city": "100%", "x-country": "BR" })).toBe("100%, Brazil");
  });

  test("shows only the visitor's city or country if the other is unknown", () => {
    expect(place({ "x-country": "pt" })).toBe("Portugal");
    expect(place({ "x-country": "United States" })).toBe("United States");
    expect(place({ "x-city": "Porto" })).toBe("Porto");
    // Cloudflare's codes for an unknown country and for Tor.
    expect(place({ "x-country": "XX" })).toBe(null);
    expect(place({ "x-country": "T1" })).toBe(null);
    expect(place({})).toBe(null);
  });

  test("ignores headers with a visitor's place unless they are configured", () => {
    expect(place({ "x-city": "Porto", "x-country": "PT" }, { city: "", country: "" })).toBe(null);
  });

  test("leaves out a place name that is too long or unreadable", () => {
    expect(place({ "x-city": "a".repeat(58) })).toBe("a".repeat(58));
    expect(place({ "x-city": "a".repeat(59), "x-country": "PT" })).toBe("Portugal");
    expect(place({ "x-city": "%E2%80%AEotroP", "x-country": "PT" })).toBe("Portugal");
  });
});
