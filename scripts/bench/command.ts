/** `npm run bench`: measures (`main.ts`), or runs one of two measurements on the running local stack. */
const [first] = process.argv.slice(2);
if (first === "identity" || first === "seed") process.argv.splice(2, 1);
if (first === "identity") await import("./identity.ts");
else if (first === "seed") await import("../load/seed.ts");
else await import("./main.ts");

export {};
