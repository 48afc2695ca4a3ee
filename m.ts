import { PGlite } from '@electric-sql/pglite'
import { openPglite } from './server/database/open.ts'
import { mkdtempSync, cpSync } from 'node:fs'
let t=performance.now(), u=process.cpuUsage(); const lap=(n:string)=>{const c=process.cpuUsage(u);console.log(n.padEnd(30),Math.round(performance.now()-t), 'cpu', Math.round(c.user/1000),'sys',Math.round(c.system/1000)); t=performance.now();u=process.cpuUsage()}
const d=mkdtempSync('/dev/shm/pgl-'); const d2=mkdtempSync('/tmp/pgl-')
const c=await openPglite(d+'/x'); lap('folder new'); await c.close(); lap('close')
const p=await PGlite.create({dataDir:d+'/x'}); lap('reopen')
const dump=await p.dumpDataDir('none'); lap('dump '+dump.size)
await p.close()
cpSync(d+'/x', d2+'/x',{recursive:true}); lap('cp')
for (const [n,f] of [['memory',()=>PGlite.create({loadDataDir:dump})],['folder tmp',()=>PGlite.create({dataDir:d2+'/x'})],['folder relaxed',()=>PGlite.create({dataDir:d+'/x',relaxedDurability:true})]] as const){
const q=await f(); lap(n+' open'); 
for(let i=0;i<300;i++){ await q.query(`insert into users default values`) ; await q.query('select count(*) from users')}
lap(n+' 300'); 
}
