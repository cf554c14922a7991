import { expect, test } from "vitest";
import { visiblePrices } from "./price-card.tsx";

const now = Date.parse("2026-11-27T00:00:00Z");
const day = 24 * 60 * 60 * 1_000;
const price = (id: number, until: string | null) => ({ id, until }) as Parameters<typeof visiblePrices>[0][number];

test.each([
  [50, 50],
  [51, 50],
])("given %d past prices, shows the %d newest past prices and all current and future prices", (length, shown) => {
  const past = Array.from({ length }, (_, n) => price(n, new Date(now - n * day).toISOString()));
  const others = [price(100, null), price(101, new Date(now + day).toISOString())];
  const ids = visiblePrices([...past.toReversed(), ...others], now).map(({ id }) => id);
  expect(ids).toEqual([...past.slice(0, shown).toReversed(), ...others].map(({ id }) => id));
});
