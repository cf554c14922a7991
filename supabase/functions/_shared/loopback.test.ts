import { expect, test } from "vitest";
import { isLoopback } from "./loopback.ts";

const local = [
  "http://localhost",
  "http://web.localhost:3000",
  "http://127.0.0.1:54321",
  "http://127.8.9.1",
  "http://[::1]:1",
];
const elsewhere = [
  "https://project.supabase.co",
  "http://127.0.0.1.evil.example",
  "http://127.evil.example",
  "http://localhost.evil.example",
  "http://notlocalhost",
  "http://localhost@evil.example",
  "http://10.0.0.1",
  "http://0.0.0.0",
  "http://[::2]",
];

test.each(local)("recognizes %s as a loopback address", (url) => {
  expect(isLoopback(new URL(url).hostname)).toBe(true);
});

test.each(elsewhere)("does not recognize %s as a loopback address", (url) => {
  expect(isLoopback(new URL(url).hostname)).toBe(false);
});
