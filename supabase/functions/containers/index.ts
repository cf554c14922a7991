import { serveMissing } from "../_gateway/runtime.ts";

serveMissing();
