import { satellite } from "./satellite";

export const proxy = satellite.proxy;
export const config = { matcher: "/((?!_next/).*)" };
