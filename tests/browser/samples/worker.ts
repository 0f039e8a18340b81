import { installSamekey } from "samekey/sw";
installSamekey({ account: async () => (await who()).id, headers: async () => ({ authorization: `Bearer ${(await who()).token}` }) });
declare function who(): Promise<{ id: string; token: string }>;  // your own IndexedDB: a worker has no localStorage
