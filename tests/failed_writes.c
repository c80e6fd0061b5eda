#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/mman.h>
#include <stdatomic.h>
static char prefix[4096]; static size_t plen; static long killat=0, failat=0; static int err=EIO, sticky=0; static char logf_[4096];
static atomic_long *cnt; static atomic_long local;
static int ready=0; static volatile long *control=0; // a page that a program of many runs changes: count, place, error, kind
__attribute__((constructor)) static void init(void){
  char*p=getenv("SHIM_PREFIX"); if(!p) return; strncpy(prefix,p,4095); plen=strlen(prefix);
  if((p=getenv("SHIM_KILL"))) killat=atol(p);
  if((p=getenv("SHIM_FAIL"))) failat=atol(p);
  if((p=getenv("SHIM_ERRNO"))) err=atoi(p);
  if((p=getenv("SHIM_STICKY"))) sticky=atoi(p);
  cnt=&local;
  if((p=getenv("SHIM_COUNT"))){ int fd=open(p,O_RDWR|O_CREAT,0644); ftruncate(fd,4096); void*m=mmap(0,4096,PROT_READ|PROT_WRITE,MAP_SHARED,fd,0); if(m!=MAP_FAILED) cnt=m; close(fd);}
  if((p=getenv("SHIM_CONTROL"))){ int fd=open(p,O_RDWR); void*m=mmap(0,4096,PROT_READ|PROT_WRITE,MAP_SHARED,fd,0); if(m!=MAP_FAILED){ control=m; cnt=m; } close(fd);}
  if((p=getenv("SHIM_LOG"))) strncpy(logf_,p,4095);
  ready=1;
}
static int under(const char*p){ char b[8192]; if(!p) return 0; if(p[0]!='/'){ if(!getcwd(b,4096)) return 0; strcat(b,"/"); strncat(b,p,4000); p=b;} return strncmp(p,prefix,plen)==0; }
static int underfd(int fd){ char l[64],b[4096]; snprintf(l,64,"/proc/self/fd/%d",fd); ssize_t n=readlink(l,b,4095); if(n<0) return 0; b[n]=0; return strncmp(b,prefix,plen)==0; }
static int underat(int d,const char*p){ if(!p) return 0; if(p[0]=='/'||d==AT_FDCWD) return under(p); return underfd(d); }
static __thread int there; // whether what is opened is there: that needs no room
static int hit(const char*what,const char*path,int fd){
  long n=atomic_fetch_add(cnt,1)+1;
  if(control){ failat=control[1]; err=control[2]; sticky=control[3]; }
  if(logf_[0]){ char b[9000],l[64],t[4096]=""; if(!path){ snprintf(l,64,"/proc/self/fd/%d",fd); ssize_t m=readlink(l,t,4095); if(m>0)t[m]=0; path=t;} int k=snprintf(b,9000,"%ld %s %s\n",n,what,path);
    static int (*o)(const char*,int,...)=0; if(!o) o=dlsym(RTLD_NEXT,"open64"); static ssize_t(*w)(int,const void*,size_t)=0; if(!w) w=dlsym(RTLD_NEXT,"write"); int f=o(logf_,O_WRONLY|O_APPEND|O_CREAT,0644); if(f>=0){w(f,b,k); static int(*c)(int)=0; if(!c)c=dlsym(RTLD_NEXT,"close"); c(f);} }
  if(killat && n==killat){ char*sg=getenv("SHIM_SIG"); if(sg){ kill(getpid(),atoi(sg)); } else { kill(0,SIGKILL); pause(); } }
  if(failat && n>=failat && sticky==2){ // a disk that is full: what needs no room succeeds
    const char*room[]={"write","writev","pwrite","pwrite64","copy_file_range","sendfile","sendfile64","mkdir","mkdirat","open","open64","openat","openat64","link","linkat",0};
    if(there && !strncmp(what,"open",4)) return 0;
    for(int i=0;room[i];i++) if(!strcmp(room[i],what)) return 1;
    return 0; }
  if(failat && (n==failat || (sticky && n>failat))){
    return 1; }
  return 0;
}
#define REAL(ret,name,...) static ret(*r)(__VA_ARGS__)=0; if(!r) r=dlsym(RTLD_NEXT,#name);
#define W(ret,name,cond,path,fd,decl,args) ret name decl { static ret(*r) decl=0; if(!r) r=dlsym(RTLD_NEXT,#name); if(ready&&(cond)&&hit(#name,path,fd)){errno=err;return -1;} return r args; }
W(ssize_t,write,underfd(fd),0,fd,(int fd,const void*b,size_t n),(fd,b,n))
W(ssize_t,writev,underfd(fd),0,fd,(int fd,const struct iovec*b,int n),(fd,b,n))
W(ssize_t,pwrite64,underfd(fd),0,fd,(int fd,const void*b,size_t n,off64_t o),(fd,b,n,o))
W(ssize_t,pwrite,underfd(fd),0,fd,(int fd,const void*b,size_t n,off_t o),(fd,b,n,o))
W(int,fsync,underfd(fd),0,fd,(int fd),(fd))
W(int,fdatasync,underfd(fd),0,fd,(int fd),(fd))
W(int,ftruncate64,underfd(fd),0,fd,(int fd,off64_t o),(fd,o))
W(int,ftruncate,underfd(fd),0,fd,(int fd,off_t o),(fd,o))
W(int,rename,under(b),b,0,(const char*a,const char*b),(a,b))
W(int,renameat,underat(e,b),b,0,(int d,const char*a,int e,const char*b),(d,a,e,b))
W(int,renameat2,underat(e,b),b,0,(int d,const char*a,int e,const char*b,unsigned f),(d,a,e,b,f))
W(int,link,under(b),b,0,(const char*a,const char*b),(a,b))
W(int,linkat,underat(e,b),b,0,(int d,const char*a,int e,const char*b,int f),(d,a,e,b,f))
W(int,unlink,under(a),a,0,(const char*a),(a))
W(int,unlinkat,underat(d,a),a,0,(int d,const char*a,int f),(d,a,f))
W(int,rmdir,under(a),a,0,(const char*a),(a))
W(int,mkdir,under(a),a,0,(const char*a,mode_t m),(a,m))
W(int,mkdirat,underat(d,a),a,0,(int d,const char*a,mode_t m),(d,a,m))
W(ssize_t,copy_file_range,underfd(o),0,o,(int i,off64_t*a,int o,off64_t*b,size_t n,unsigned f),(i,a,o,b,n,f))
W(ssize_t,sendfile64,underfd(o),0,o,(int o,int i,off64_t*b,size_t n),(o,i,b,n))
W(ssize_t,sendfile,underfd(o),0,o,(int o,int i,off_t*b,size_t n),(o,i,b,n))
W(int,chmod,under(a),a,0,(const char*a,mode_t m),(a,m))
W(int,fchmod,underfd(fd),0,fd,(int fd,mode_t m),(fd,m))
#define OPENW(name) int name(const char*p,int f,...){ va_list v; va_start(v,f); int m=va_arg(v,int); va_end(v); static int(*r)(const char*,int,...)=0; if(!r) r=dlsym(RTLD_NEXT,#name); if(ready&&(f&(O_CREAT|O_TRUNC|O_WRONLY|O_RDWR))&&under(p)&&(there=!access(p,F_OK),hit(#name,p,0))){errno=err;return -1;} return r(p,f,m);}
OPENW(open) OPENW(open64)
#define OPENATW(name) int name(int d,const char*p,int f,...){ va_list v; va_start(v,f); int m=va_arg(v,int); va_end(v); static int(*r)(int,const char*,int,...)=0; if(!r) r=dlsym(RTLD_NEXT,#name); if(ready&&(f&(O_CREAT|O_TRUNC|O_WRONLY|O_RDWR))&&underat(d,p)&&(there=!faccessat(d,p,F_OK,0),hit(#name,p,0))){errno=err;return -1;} return r(d,p,f,m);}
OPENATW(openat) OPENATW(openat64)
